"""The command `kernel-runner`: evaluate, compare, reproduce, report, build, profile, sanitize, batch, attack, doctor."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from runner.errors import FactoryError, FaultsError
from runner.report import as_json, markdown
from runner.result import Result, load_result, write_result
from runner.verdict import Rejected, Verdict

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Judges kernels: builds, checks and measures them on this machine.")

NOT_SO, EXPECTED_FAILURE = 1, 2
# A forge takes at most 1 MiB as a step's summary.
MAX_SUMMARY = 250_000
PROJECT = Path(__file__).resolve().parent.parent


def _use_device(named: str | None) -> str | None:
    """Let this process, and those that it starts, see one GPU only. It must be said before anything asks the driver."""
    if named is not None:
        if not re.fullmatch(r"\d{1,3}|GPU-[0-9a-fA-F-]{8,36}", named):
            raise FactoryError(f"--device {named}: expected a GPU's number or its UUID, as `nvidia-smi -L` says them")
        os.environ["CUDA_VISIBLE_DEVICES"] = named
    return named


GpuName = Annotated[
    str | None, typer.Option("--device", callback=_use_device, help="The GPU that judges: its number or UUID; else the first.")
]
SpecFolder = Annotated[Path, typer.Argument(help="The spec's folder, such as kernel-specs/rmsnorm-cpu.")]
CandidateName = Annotated[str, typer.Option(help="A kernel folder, `champion` (the spec's kernel/), or `baseline:NAME`.")]
ResultFile = Annotated[Path, typer.Argument(help="A result.json.")]


@app.command()
def evaluate(
    spec: SpecFolder,
    out: Annotated[Path, typer.Option(help="Where the result is written, as JSON.")],
    candidate: CandidateName = "champion",
    against: Annotated[str, typer.Option(help="`baseline`, `champion`, or a kernel folder to compare with.")] = "baseline",
    tier: Annotated[Literal["full", "screening"], typer.Option(help="screening takes seconds and is for search.")] = "full",
    workload: Annotated[list[str] | None, typer.Option(help="Only this workload; may be given several times.")] = None,
    axes: Annotated[str | None, typer.Option(help="Other axis lengths for the workload, such as rows=3,cols=17.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same inputs and hidden workloads again.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Choose the baselines anew.")] = False,
    summary: Annotated[Path | None, typer.Option(help="Also write the Markdown summary to this file.")] = None,
    require: Annotated[Literal["accepted"] | None, typer.Option(help="Exit with status 1 for every other verdict.")] = None,
    device: GpuName = None,
) -> None:
    """Judge a kernel. Prints a Markdown summary; the exit status is 0 whatever the verdict, 2 when there could be none."""
    from runner.evaluate import evaluate_named
    from runner.terminal import shown_progress

    with shown_progress() as progress:
        result = evaluate_named(
            spec,
            candidate,
            tier=tier,
            seed=seed,
            against=against,
            fresh=fresh,
            progress=progress,
            selection=tuple(workload or ()),
            axes=parse_axes(axes),
        )
    write_result(result, out)
    text = markdown(result, str(out), reproduce_words(result, spec, candidate))
    typer.echo(text)
    if summary is not None:
        _write(summary, text)
    if require is not None and result.verdict is not Verdict.ACCEPTED:
        raise typer.Exit(NOT_SO)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="A kernel folder, `champion` or `baseline:NAME`.")],
    second: Annotated[str, typer.Argument(help="What it is compared with, likewise.")],
    spec: Annotated[Path | None, typer.Option(help="The spec's folder, if it isn't the one around the kernels.")] = None,
    tier: Annotated[Literal["full", "screening"], typer.Option(help="screening takes seconds.")] = "full",
    workload: Annotated[list[str] | None, typer.Option(help="Only this workload; may be given several times.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same inputs and orders again.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write times, intervals and raw samples to this file, as JSON.")] = None,
    device: GpuName = None,
) -> None:
    """Time two kernels of a spec against each other, both checked first. Exit status 2 when one of them is refused or wrong."""
    from runner import compare as comparing
    from runner.spec.load import load_spec
    from runner.targets.registry import target_for
    from runner.terminal import shown_progress

    loaded = load_spec(comparing.spec_of((first, second), spec))
    with shown_progress() as progress:
        found = comparing.compare_named(loaded, target_for(loaded.spec), (first, second), tier, seed, tuple(workload or ()), progress)
    if out is not None:
        _write(out, found.model_dump_json(by_alias=True, indent=1) + "\n")
    typer.echo(comparing.markdown(found))


@app.command()
def reproduce(
    result: ResultFile,
    spec: Annotated[Path | None, typer.Option(help="The spec's folder, if it isn't the one around the result.")] = None,
    candidate: Annotated[Path | None, typer.Option(help="The kernel's folder, if it isn't the spec's kernel/.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the new result here.")] = None,
    device: GpuName = None,
) -> None:
    """Measure a result again with other inputs, and say whether it holds: exit status 0 when it does, 1 when not."""
    from runner.reproduce import find_spec, find_subject
    from runner.reproduce import reproduce as measure_again
    from runner.targets.registry import target_for
    from runner.terminal import shown_progress

    recorded = load_result(result)
    loaded = find_spec(recorded, result, spec)
    subject = find_subject(recorded, loaded, candidate)
    with shown_progress() as progress:
        found = measure_again(recorded, loaded, subject, target_for(loaded.spec), progress)
    if found.again is not None:
        if out is not None:
            write_result(found.again, out)
        typer.echo(_compared(recorded, found.again))
    for note in found.notes:
        typer.echo(f"note: {note}")
    for difference in found.differences:
        typer.echo(f"does not hold: {difference}")
    if not found.holds:
        raise typer.Exit(NOT_SO)
    typer.echo("holds")


@app.command()
def report(result: ResultFile, json_: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False) -> None:
    """Print a result as a Markdown table, or its figures as JSON."""
    recorded = load_result(result)
    typer.echo(json.dumps(as_json(recorded), indent=1) if json_ else markdown(recorded, str(result)))


@app.command()
def build(
    spec: SpecFolder,
    candidate: Annotated[str, typer.Option(help="A kernel folder, or `champion` (the spec's kernel/).")] = "champion",
    arch: Annotated[Literal["sm_90a", "sm_100a"] | None, typer.Option(help="Build for this GPU instead of the spec's.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write what was found to this file.")] = None,
) -> None:
    """Check the policy and build every table row of a kernel; nothing of it is run. Exit status 1 when it is refused."""
    from runner.evaluate import build_named

    found = build_named(spec, candidate, arch)
    if json_ is not None:
        _write(json_, json.dumps(found, indent=1))
    typer.echo(f"{found['verdict']}: {found['message']}" if found["message"] else str(found["verdict"]))
    for row in found["rows"]:
        knobs = ", ".join(f"{name}={value}" for name, value in row["knobs"].items()) or "no knobs"
        facts = ", ".join(f"{name} {value}" for name, value in row["facts"].items())
        typer.echo(f"{knobs}: {row['sha256'][:16]} {facts}")
    if found["verdict"] != "built":
        raise typer.Exit(NOT_SO)


@app.command()
def profile(
    spec: SpecFolder,
    candidate: Annotated[str, typer.Option(help="A kernel folder, or `champion` (the spec's kernel/).")] = "champion",
    workload: Annotated[str | None, typer.Option(help="A public or edge workload; else the largest that a profiler can be given.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the counters to this file.")] = None,
    device: GpuName = None,
) -> None:
    """Run one call of a kernel under the GPU's profiler, and say what holds each of its launches back."""
    from runner import profile as profiles
    from runner.evaluate import load_candidate

    found = profiles.profile(*load_candidate(spec, candidate), workload)
    if json_ is not None:
        _write(json_, json.dumps(found.as_json(), indent=1))
    typer.echo(profiles.markdown(found))


@app.command()
def sanitize(
    spec: SpecFolder,
    candidate: Annotated[str, typer.Option(help="A kernel folder, or `champion` (the spec's kernel/).")] = "champion",
    workload: Annotated[list[str] | None, typer.Option(help="Only this workload; may be given several times.")] = None,
    device: GpuName = None,
) -> None:
    """Run a kernel under the GPU's checking tools, on small workloads. Exit status 1 when they find what is certainly wrong."""
    from runner.evaluate import load_candidate
    from runner.sanitize import sanitize_named

    found = sanitize_named(*load_candidate(spec, candidate), tuple(workload or ()))
    for one in found.findings:
        typer.echo(f"{'wrong' if one.certain else 'note'}: {one}")
    typer.echo(f"{len(found.findings)} findings on {', '.join(found.workloads)}")
    if found.wrong() is not None:
        raise typer.Exit(NOT_SO)


@app.command()
def batch(
    request: Annotated[Path, typer.Argument(help="The batch's request.json; its candidates lie beside it, in candidates/.")],
    out: Annotated[Path, typer.Option(help="The folder where batch.json is written.")],
    specs: Annotated[Path, typer.Option(help="The folder of the specs.")] = Path("kernel-specs"),
    run: Annotated[str, typer.Option(help="Who executes this, such as RUN-ID/ATTEMPT; it is kept in the answer.")] = "",
    summary: Annotated[Path | None, typer.Option(help="Also write a Markdown summary to this file.")] = None,
    device: GpuName = None,
) -> None:
    """Judge or tune all candidates of a batch in their order. Exit status 0 whatever came of them, also where this machine can't judge."""
    from runner import batch as batches

    answer = batches.run_batch(request, specs, out, run=run, say=typer.echo)
    if summary is not None:
        _write(summary, batches.summary(answer)[:MAX_SUMMARY])


@app.command()
def attack(
    target: Annotated[str, typer.Option(help="Which target's suite is run.")] = "cpu",
    suite: Annotated[Path | None, typer.Option(help="The suite's folder; else the one of this project.")] = None,
    specs: Annotated[Path | None, typer.Option(help="The folder of specs that the suite names; else this project's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write every case's verdict to this file, as JSON.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same variants and inputs again.")] = None,
    only: Annotated[str, typer.Option(help="Only cases and controls whose names match this pattern.")] = "",
    variants: Annotated[int, typer.Option(min=0, help="How many unseen variants of each case are drawn, besides the one as written.")] = 1,
    device: GpuName = None,
) -> None:
    """Run the adversarial suite: cheating kernels must be caught, honest ones must pass. Exit status 1 for any miss."""
    from runner.attack import run_suite
    from runner.targets.registry import target_named

    judge_of = target_named(target)
    folder = suite or PROJECT / "tests" / "adversarial" / target
    if not folder.is_dir():
        raise FactoryError(f"{folder}: no such folder; name the suite with --suite")
    report = run_suite(judge_of, folder, specs or PROJECT / "kernel-specs", out, seed, typer.echo, only=only, variants=variants)
    if not report.clean:
        raise typer.Exit(NOT_SO)


@app.command()
def doctor() -> None:
    """Look at this machine: what the judge needs, whether it is there, and what to do where it isn't."""
    from rich.console import Console
    from rich.table import Table

    from runner.doctor import examine

    checks = examine()
    table = Table("", "check")
    for head in ("found", "remedy"):
        table.add_column(head, overflow="fold")
    for check in checks:
        table.add_row("ok" if check.ok else "FAILED", check.name, check.found, check.remedy)
    Console().print(table)
    if not all(check.ok for check in checks):
        raise typer.Exit(NOT_SO)


def parse_axes(text: str | None) -> dict[str, int]:
    """`rows=3,cols=17` as lengths by axis. Raises `FactoryError` for anything else."""
    axes = {}
    for part in text.split(",") if text else []:
        name, equals, length = part.strip().partition("=")
        if not equals or not name.isidentifier() or not length.isdecimal():
            raise FactoryError(f"--axes {text}: expected axis=length, with commas between, such as rows=3,cols=17")
        axes[name] = int(length)
    return axes


def reproduce_words(result: Result, spec: Path, candidate: str) -> list[str]:
    """What `reproduce` must be told, because it would not find it by itself."""
    words = [] if spec == Path("kernel-specs") / result.spec else ["--spec", str(spec)]
    return words if candidate == "champion" or candidate.startswith("baseline:") else [*words, "--candidate", candidate]


def _compared(then: Result, now: Result) -> str:
    lines = [f"verdict: {then.verdict}, now {now.verdict}"]
    if then.geomean is not None and now.geomean is not None:
        lines.append(f"geomean: {_shown(then)}, now {_shown(now)}")
    return "\n".join(lines)


def _shown(result: Result) -> str:
    assert result.geomean is not None
    low, high = result.geomean.interval
    return f"{result.geomean.speedup:.3f} [{low:.3f}, {high:.3f}]"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FactoryError(f"{path}: cannot be written: {error.strerror}") from error


def main() -> None:
    """The entry point: every expected failure becomes one message and exit status 2."""
    try:
        app()
    except FaultsError as error:
        print(error, file=sys.stderr)
        sys.exit(EXPECTED_FAILURE)
    except (FactoryError, Rejected) as error:
        print(f"kernel-runner: {error}", file=sys.stderr)
        sys.exit(EXPECTED_FAILURE)


if __name__ == "__main__":
    main()
