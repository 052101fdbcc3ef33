"""The command `kernel-factory`: check specs, run a campaign on this machine or on a forge, look into the notebook, show it all."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from runner.errors import FactoryError, FaultsError
from runner.state import VARIABLE, made, state_folder

if TYPE_CHECKING:
    from bot.campaign.live import Terminal
    from bot.campaign.session import Asked, Session

app = typer.Typer(add_completion=False, no_args_is_help=True, help="A factory for kernels: specs in, honestly judged kernels out.")

FAULTY, EXPECTED_FAILURE, INTERRUPTED = 1, 2, 130
SETTLE_SECONDS = 2.0

Spec = Annotated[Path, typer.Argument(help="The spec's folder, such as kernel-specs/rmsnorm-cpu.")]
State = Annotated[
    Path | None,
    typer.Option("--state", help="Where campaigns, notebook and caches are kept; else $KERNEL_FACTORY_STATE or .kernel-factory."),
]


@app.command()
def lint(paths: Annotated[list[Path], typer.Argument(help="Spec folders, or folders that hold some.")]) -> None:
    """Check specs and their kernels; every fault is printed as `file:line:column: message`."""
    from runner.lint import lint_paths, spec_folders

    faults = lint_paths(paths)
    for fault in faults:
        typer.echo(str(fault))
    if faults:
        raise typer.Exit(FAULTY)
    count = len({folder for path in paths for folder in spec_folders(path)})
    typer.echo(f"{count} specs are valid" if count != 1 else "1 spec is valid")


@app.command()
def campaign(
    spec: Spec,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write a summary for programs to this file.")] = None,
    state: State = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search; the campaign's number if not given.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only this lineage of the spec; may be given several times.")] = None,
    budget_candidates: Annotated[int | None, typer.Option(min=1, help="Evaluations that may be spent, instead of the spec's.")] = None,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="Keep the winner in the state folder; write nothing into the spec.")
    ] = False,
) -> None:
    """Run a campaign on this machine, or continue the one that was interrupted; the winner is written into the working tree."""
    from bot.campaign.session import Asked

    asked = Asked(
        folder=spec.resolve(),
        state=_state(state),
        seed=seed,
        agents=tuple(agent or ()),
        candidates=budget_candidates,
        publish=not no_publish,
    )
    _run(asked, json_path)


@app.command()
def notebook(spec: Spec, state: State = None) -> None:
    """List every experiment on a spec, failed ones too."""
    from bot.campaign.live import line
    from bot.evidence.notebook import Notebook
    from runner.spec.load import load_spec

    identifier = load_spec(spec).spec.id
    with Notebook(_state(state) / "notebook.sqlite") as book:
        for experiment in book.experiments(identifier):
            typer.echo(line(experiment))


@contextmanager
def _forge_packages() -> Iterator[None]:
    """What speaks to a forge has packages of its own: where they are missing, say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FactoryError(f"the package {error.name} is missing; install what a forge needs: pip install -e '.[runner,github]'") from error


@app.command()
def serve(state: State = None) -> None:
    """The bot for one repository on a forge: webhooks, campaigns, pull requests. Its settings are the KERNEL_FACTORY_… variables."""
    with _forge_packages():
        from bot.serve import serve as serve_until_ended
    from bot.settings import Settings

    serve_until_ended(Settings(), _state(state))


@app.command()
def demo(
    approve: Annotated[
        bool, typer.Option("--approve", help="Approve the winner by itself, through the page that a person would use.")
    ] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write a summary for programs to this file.")] = None,
    spec: Annotated[Path | None, typer.Option("--spec", help="Another spec than the project's own.")] = None,
    state: State = None,
) -> None:
    """The whole loop on this machine: a forge, the bot, a spec that is committed, pull requests, a winner that you approve in a browser."""
    with _forge_packages():
        from bot.demo import Asked, demo

    signal.signal(signal.SIGTERM, _terminated)
    try:
        demo(Asked(_state(state), approve=approve, json_path=json_path, spec=spec.resolve() if spec is not None else None))
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _run(asked: Asked, json_path: Path | None) -> None:
    """Run one command's part in a campaign. Ctrl-C (or a polite kill) ends it at once, and the campaign can be continued."""
    from bot.campaign.bench import RunnerBench
    from bot.campaign.live import Terminal
    from bot.campaign.session import Session
    from bot.campaign.store import write_atomically
    from bot.campaign.story import story, summary
    from bot.settings import Settings

    signal.signal(signal.SIGTERM, _terminated)
    terminal = Terminal()
    session = Session(asked, Settings(), RunnerBench(), terminal)
    with session:
        # Given up within the session: leaving it would wait for the campaign's thread and close the notebook under it.
        try:
            with terminal:
                report = session.run(session.order())
            if json_path is not None:
                write_atomically(json_path.absolute(), json.dumps(summary(report), indent=1).encode() + b"\n")
            typer.echo(story(report))
            sys.stdout.flush()
            session.close()
        except KeyboardInterrupt:
            _give_up(terminal, session)


def _give_up(terminal: Terminal, session: Session) -> NoReturn:
    """End the process without leaving another one behind. The campaign's thread may be in the middle of a measurement: it is asked
    first, and not waited for long."""
    from bot.campaign.processes import end_descendants

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    terminal.stop()
    session.engine.settle(SETTLE_SECONDS)
    end_descendants()
    print("interrupted; the campaign continues when the command is run again", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _state(folder: Path | None) -> Path:
    """The state folder. One that is named is what the runner uses too."""
    if folder is not None:
        os.environ[VARIABLE] = str(made(folder.expanduser().absolute()))
    return state_folder()


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The entry point: every expected failure becomes one message and exit status 2."""
    try:
        app()
    except FaultsError as error:
        print(error, file=sys.stderr)
        sys.exit(EXPECTED_FAILURE)
    except FactoryError as error:
        print(f"kernel-factory: {error}", file=sys.stderr)
        sys.exit(EXPECTED_FAILURE)


if __name__ == "__main__":
    main()
