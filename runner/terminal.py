"""What the commands show on standard error while the judge works: one changing line on a terminal, elsewhere a line for each step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from runner.progress import Progress, Step


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A progress to give to the judge; the line is gone afterwards."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _logged()
        return
    begun = time.monotonic()
    with console.status("…") as status:

        def show(step: Step) -> None:
            count = f" {step.done + 1}/{step.total}" if step.total > 1 else ""
            ratio = "" if step.ratio is None else f" [bold]{step.ratio:.3f} ×[/bold]"
            status.update(f"{time.monotonic() - begun:.0f} s · {step.stage}{count} {escape(step.workload)}{ratio}")

        yield show


def _logged() -> Progress:
    """A progress that prints a line whenever the stage or the workload is another than before."""
    begun, before = time.monotonic(), ("", "")

    def show(step: Step) -> None:
        nonlocal before
        if (step.stage, step.workload) != before and step.stage != "build":
            before = (step.stage, step.workload)
            print(f"{time.monotonic() - begun:.1f} s · {step.stage} {step.done + 1}/{step.total} {step.workload}", file=sys.stderr)

    return show
