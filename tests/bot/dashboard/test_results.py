"""`RESULTS.md` shows what was measured and how it was found, and nothing that it quotes does anything."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from bot.dashboard.results import results_markdown
from runner.result import BaselineRow, CopyRow, Geomean, Identity, Result, Samples, TimingRow
from runner.verdict import Verdict

TREE = "c" * 40
EVIL = "fixes #1 @octocat | <b>x</b>\n\n# heading\n[a](https://example.org) `"


def row(workload: str, speedup: float) -> TimingRow:
    return TimingRow(
        workload=workload,
        axes={"rows": 64, "cols": 1024},
        dtype="float32",
        verdict=Verdict.ACCEPTED,
        error=3e-8,
        median_ms=1.0 / speedup,
        baseline=BaselineRow(name="torch rms_norm", config="as installed", median_ms=1.0),
        speedup=speedup,
        interval=(speedup * 0.99, speedup * 1.01),
        aa=1.001,
        noisy=False,
        roofline=0.71,
        copy=CopyRow(name="memcpy", median_ms=0.6, share=0.8),
        samples=Samples(calls=4, candidate=((1.0,),), baseline=((1.0,),), order=("AB",)),
    )


def result(**other) -> Result:
    fields = {
        "spec": "rmsnorm-cpu",
        "identity": Identity(kernel_tree=TREE, spec_hash="5" * 64, harness="6" * 64, binaries=("7" * 64,)),
        "tier": "full",
        "verdict": Verdict.ACCEPTED,
        "message": "faster on every workload",
        "knobs": ({"isa": "x86-64-v3", "unroll": 4},),
        "seed": 7,
        "started": "2026-11-02T10:00:00+00:00",
        "seconds": 42.0,
        "device": "a CPU with two cores",
        "device_id": "cpu-1",
        "environment": {"kernel": "6.1", "g++": "12.2"},
        "rows": (row("64x1024", 1.2), row("8192x4096", 1.6)),
        "geomean": Geomean(speedup=1.386, interval=(1.37, 1.40), aa=1.0),
    }
    return Result.model_validate({**fields, **other})


@pytest.fixture
def campaign(make_experiment):
    return [
        make_experiment(0, 0.5, round=0, agent="champion", tier="full", kind="seed"),
        make_experiment(0, 1.3, knobs={"isa": "x86-64-v3", "unroll": 4}, kernel_tree=TREE, parent="a" * 40, hypothesis="search (tpe)"),
        make_experiment(1, None, verdict="launch_error"),
        make_experiment(0, 1.1, agent="local", round=2),
        make_experiment(2, 1.386, tier="full", kernel_tree=TREE, verdict="accepted", parent="c1/1/tpe/0"),
    ]


def test_the_page_tells_what_was_reached_and_how_it_was_found(spec, campaign):
    page = results_markdown(spec, result(), campaign, "results/2026.png", result_path="results/2026.json")
    assert page.startswith("# RMSNorm in fp32 on a CPU\n")
    assert "**1.39× as fast as the best baseline** (95% interval 1.370–1.400, geometric mean over 2 workloads)" in page
    assert "had to clear 1.05×" in page
    assert re.search(r"\| 64x1024 +\| 3\.0e-08 \| 833 µs \| torch rms\\_norm 1\.00 ms \| 1\.200 ", page)
    assert "80 % (memcpy)" in page
    assert "kernel-runner reproduce kernel-specs/rmsnorm-cpu/results/2026.json" in page
    assert "[results/2026.json](<results/2026.json>)" in page
    assert "- 2 rounds, 5 evaluations (3 screened, 2 judged in full): 3 slower, 1 accepted, 1 launch\\_error." in page
    assert "First seen as `c1/1/tpe/0`, round 1, from a search over knobs, by the lineage `tpe`." in page
    assert f"descends from the kernel tree `{'a' * 40}`" in page
    assert "![How the best speed-up grew with the evaluations spent](<results/2026.png>)" in page
    assert "| `tpe` | 3 | 1 | 1.300× | 1.386× |" in page
    assert "| `local` | 1 | 0 | 1.100× | – |" in page
    for fact in (TREE, "5" * 64, "6" * 64, "a CPU with two cores", "12.2"):
        assert fact in page


def test_a_page_is_the_same_for_the_same_evidence(spec, campaign):
    assert results_markdown(spec, result(), campaign, "a.png") == results_markdown(spec, result(), campaign, "a.png")


def test_what_the_page_quotes_does_nothing(spec, campaign, make_experiment):
    evil_spec = spec.model_copy(update={"title": EVIL, "description": EVIL})
    evil = make_experiment(9, 1.3, kernel_tree=TREE, hypothesis=EVIL, parent=EVIL, agent=EVIL, kind="model")
    bad = result(message=EVIL, device=EVIL, environment={EVIL: EVIL}, rows=(row(EVIL, 1.1),), against=EVIL, knobs=({EVIL: EVIL},))
    page = results_markdown(evil_spec, bad, [evil, *campaign], "a b>(c).png", result_path="r<.json")
    assert not re.search(r"#[0-9]|@[a-z]|[a-z]://", page)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    children = [child for token in tokens for child in token.children or []]
    assert {child.type for child in children} <= {
        "text",
        "text_special",
        "code_inline",
        "softbreak",
        "strong_open",
        "strong_close",
        "link_open",
        "link_close",
        "image",
    }
    assert [child.attrs["href"] for child in children if child.type == "link_open"] == ["r%3C.json"]
    assert [child.attrs["src"] for child in children if child.type == "image"] == ["a%20b%3E(c).png"]
    html = [token.content for token in tokens if token.type == "html_block"]
    assert all("<b>" not in text for text in html)
    assert sum(token.type == "heading_open" for token in tokens) == 3


def test_a_result_without_times_still_gives_a_page(spec):
    page = results_markdown(spec, result(rows=(), geomean=None, verdict=Verdict.INCORRECT, message="1 of 4 wrong"), [], "a.png")
    assert "1 of 4 wrong" in page
    assert "0 rounds, 0 evaluations (0 screened, 0 judged in full): none." in page
