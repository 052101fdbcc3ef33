"""A person's wrong kernel, really judged: the command that the comment gives shows the failure in a clone of the pull request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import texts_support as texts
from real import CHAMPION, write_real_spec

from bot import comments
from bot.campaign.bench import RunnerBench
from runner.candidate import read_candidate
from runner.spec.load import load_spec
from runner.verdict import Verdict


def test_the_command_in_the_comment_shows_the_failure_again(tmp_path: Path) -> None:
    folder = write_real_spec(tmp_path / "kernel-specs" / "gate-cpu")
    (folder / "kernel" / "gate.cpp").write_text(CHAMPION.replace("* value + value", "* value"))
    spec = load_spec(folder)
    candidate = read_candidate(folder / "kernel", spec.spec.policy)
    result = RunnerBench().judge(spec, candidate, tier="screening", against="baseline", fresh=False, progress=lambda _: None)
    assert result.verdict is Verdict.INCORRECT
    mine = texts.outcome(Verdict.INCORRECT, entry=texts.entry(kind="person", agent="pr-5"))
    comment = comments.result_comment(texts.order(spec=spec.spec.id), mine, result, texts.HEAD)
    assert result.reproduction is not None
    assert f"The failing workload `{result.reproduction.workload}`" in comment
    (command,) = re.findall(r"```sh\nkernel-runner (.*)\n```", comment)
    subprocess.run([sys.executable, "-m", "runner.cli", *command.split()], cwd=tmp_path, check=False, capture_output=True, timeout=120)
    again = json.loads((tmp_path / "result.json").read_text())
    assert (again["verdict"], again["identity"]["kernel_tree"]) == ("incorrect", candidate.tree)
