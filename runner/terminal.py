"""What the commands show while the judge works: one line on a terminal's standard error, and nothing where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from runner.progress import Progress, Step, silent


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A progress to give to the judge; the line is gone afterwards."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    begun = time.monotonic()
    with console.status("…") as status:

        def show(step: Step) -> None:
            count = f" {step.done + 1}/{step.total}" if step.total > 1 else ""
            ratio = "" if step.ratio is None else f" [bold]{step.ratio:.3f} ×[/bold]"
            status.update(f"{time.monotonic() - begun:.0f} s · {step.stage}{count} {escape(step.workload)}{ratio}")

        yield show
