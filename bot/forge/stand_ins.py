"""Small stand-ins for the two public actions that `evaluate.yml` uses, so that a run needs no network: checkout and upload-artifact.

They are composite actions, written into a run's folder, which act takes in place of the pinned ones. They know the inputs that the
workflow gives, and nothing more.
"""

from __future__ import annotations

import re
from pathlib import Path

GIT_DIR, ARTIFACTS = "FORGE_GIT_DIR", "FORGE_ARTIFACTS"
"""The variables that tell the stand-ins where the bare repository lies, and where artifacts go."""

_CHECKOUT = """\
name: checkout
description: Lays out the files of a commit of the forge's repository. No credentials are involved.
inputs:
  ref: {description: A commit or a ref., default: ""}
  path: {description: Where the files go., default: "."}
  persist-credentials: {description: There are none., default: "false"}
  fetch-depth: {description: Files only., default: "1"}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        CHECKOUT_REF: ${{ inputs.ref }}
        CHECKOUT_PATH: ${{ inputs.path }}
      run: |
        commit=$(git --git-dir "$FORGE_GIT_DIR" rev-parse --verify --end-of-options "${CHECKOUT_REF:-$GITHUB_SHA}^{commit}")
        target="$GITHUB_WORKSPACE/$CHECKOUT_PATH"
        mkdir -p -- "$target"
        index=$(mktemp -d)
        # An index of its own, so that nothing in the bare repository changes.
        export GIT_INDEX_FILE="$index/index"
        git --git-dir "$FORGE_GIT_DIR" --work-tree "$target" read-tree "$commit"
        git --git-dir "$FORGE_GIT_DIR" --work-tree "$target" -c core.hooksPath=/dev/null checkout-index --all --force
        rm -r -- "$index"
"""

_UPLOAD = """\
name: upload-artifact
description: Keeps a folder as a zip in the forge.
inputs:
  name: {description: The artifact's name., required: true}
  path: {description: The folder., required: true}
  if-no-files-found: {description: What an empty folder is., default: warn}
  retention-days: {description: The forge keeps all., default: "90"}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        UPLOAD_NAME: ${{ inputs.name }}
        UPLOAD_PATH: ${{ inputs.path }}
      run: |
        case "$UPLOAD_NAME" in ""|.*|*/*) echo "::error::not a name of an artifact"; exit 1;; esac
        cd -- "$GITHUB_WORKSPACE/$UPLOAD_PATH"
        python3 -m zipfile -c "$FORGE_ARTIFACTS/.part.$UPLOAD_NAME" ./*
        mv -- "$FORGE_ARTIFACTS/.part.$UPLOAD_NAME" "$FORGE_ARTIFACTS/$UPLOAD_NAME.zip"
"""

_ACTIONS = {"actions/checkout": _CHECKOUT, "actions/upload-artifact": _UPLOAD}
_USES = re.compile(r"^\s*(?:-\s+)?uses:\s*([\w.-]+/[\w.-]+)@([\w.-]+)", re.MULTILINE)


def write_stand_ins(workflow: str, folder: Path) -> list[str]:
    """Write a stand-in for each action that the workflow's text uses. Returns act's `--local-repository` values (`NAME@REF=FOLDER`).

    An action without a stand-in is left to act, which then says that it can't be fetched.
    """
    values = []
    for name, ref in dict.fromkeys(_USES.findall(workflow)):
        if name in _ACTIONS:
            path = folder / name.replace("/", "-")
            path.mkdir(parents=True, exist_ok=True)
            (path / "action.yml").write_text(_ACTIONS[name], encoding="utf-8")
            values.append(f"{name}@{ref}={path}")
    return values
