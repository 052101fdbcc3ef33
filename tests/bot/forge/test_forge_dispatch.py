"""A dispatched run through the API, really executed: its artifact comes back whole, unless the forge was told to spoil it."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from stand import FULL_NAME, Stand, stand

WORKFLOW = """\
on:
  workflow_dispatch:
    inputs: {commit: {type: string, required: true}}
jobs:
  evaluate:
    runs-on: [self-hosted]
    steps:
      - run: mkdir out && echo "$GITHUB_RUN_ID" > out/run.txt
      - uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02
        with: {name: evaluation, path: out}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stand]:
    with stand(tmp_path) as made:
        made.commit("main", {".github/workflows/evaluate.yml": WORKFLOW})
        yield made


@pytest.mark.parametrize(
    "kind", ["", "artifact_missing", "artifact_expired", "artifact_not_zip", "artifact_digest", "artifact_large", "run_foreign"]
)
def test_a_run_and_its_artifact(place: Stand, kind: str) -> None:
    if kind:
        place.forge.misbehave(kind)
    token = place.forge.forge.installation_token()[0]
    base = f"{place.forge.api_url}/repos/{FULL_NAME}/actions"
    asked = {"ref": "main", "inputs": {"commit": "1"}, "return_run_details": True}
    with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        number = client.post(f"{base}/workflows/evaluate.yml/dispatches", json=asked).json()["workflow_run_id"]
        place.wait(lambda: place.repository.runs[number].status == "completed")
        run = client.get(f"{base}/runs/{number}").json()
        assert run["conclusion"] == "success", place.repository.runs[number].log
        assert (run["head_sha"] == place.git("rev-parse", "HEAD")) is (kind != "run_foreign")
        artifacts = client.get(f"{base}/runs/{number}/artifacts").json()["artifacts"]
        assert len(artifacts) == (0 if kind == "artifact_missing" else 1)
        if not artifacts:
            return
        assert (artifacts[0]["size_in_bytes"] > 64 << 20) is (kind == "artifact_large")
        if kind == "artifact_large":
            return
        answer = client.get(artifacts[0]["archive_download_url"], follow_redirects=True)
        assert answer.status_code == (410 if kind == "artifact_expired" else 200)
        if kind == "artifact_expired":
            return
        assert (artifacts[0]["digest"] == f"sha256:{hashlib.sha256(answer.content).hexdigest()}") is (kind != "artifact_digest")
        assert zipfile.is_zipfile(io.BytesIO(answer.content)) is (kind != "artifact_not_zip")
        if kind == "":
            assert zipfile.ZipFile(io.BytesIO(answer.content)).read("run.txt").decode() == f"{number}\n"
