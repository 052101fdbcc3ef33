"""The publish port of one machine: the winner is written into the spec's folder in the working tree, for a person to commit.

Pages and plots are imported when there is something to publish: they bring a plotting library.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from bot.campaign.ports import Closing, Release
from bot.campaign.state import Course, Order, Plan, Publication
from bot.campaign.store import write_atomically
from runner.candidate import read_candidate, write_candidate
from runner.errors import FactoryError
from runner.spec.load import LoadedSpec


class WorkingTree:
    """`PublishPort` into a spec's folder. Nothing is written before the end, and nothing is committed."""

    def started(self, order: Order, plan: Plan) -> None:
        """A working tree shows nothing of a campaign that is under way."""

    def progressed(self, order: Order, course: Course) -> None:
        """A working tree shows nothing of a campaign that is under way."""

    def published(self, release: Release) -> Publication:
        """Write results, pages and, last, the kernel. Refuses when `kernel/` is neither the champion's nor the winner's already."""
        folder = release.spec.folder
        now = kernel_tree(release.spec)
        if now not in (release.order.champion, release.winner.kernel_tree):
            told = f"{folder / 'kernel'} was changed since the campaign began, so it was left alone"
            return Publication(published=False, message=f"{told}; the winner is kept in {release.kept}")
        written = self.evidence(release, folder)
        if now != release.winner.kernel_tree:
            write_candidate(release.candidate, folder / "kernel")
        after = kernel_tree(release.spec)
        if after != release.winner.kernel_tree:
            raise FactoryError(f"{folder / 'kernel'} has the tree {after} after writing, not the judged {release.winner.kernel_tree}")
        files = [folder / "kernel" / name for name in release.candidate.files] + written
        return Publication(published=True, message=f"written to {folder}", files=tuple(str(path) for path in files))

    def ended(self, closing: Closing) -> tuple[str, ...]:
        """Keep the lessons of a campaign that published nothing; those of the others are published with the winner."""
        if closing.spec is None or closing.ending.status == "accepted":
            return ()
        from bot.dashboard.lessons import lessons_markdown

        path = closing.spec.folder / "lessons.md"
        write_atomically(path, lessons_markdown(closing.spec.spec, closing.lessons).encode())
        return (str(path),)

    def evidence(self, release: Release, folder: Path) -> list[Path]:
        """Write what stands beside a winner's kernel (results, plot, page, lessons) into a copy of its spec's folder."""
        from bot.dashboard.lessons import lessons_markdown
        from bot.dashboard.results import results_markdown

        spec, result = release.spec.spec, release.result
        data = result.model_dump_json(by_alias=True, indent=1).encode() + b"\n"
        path = _result_path(folder / "results", f"{result.started[:10]}-{_slug(result.device)}", data)
        write_atomically(path, data)
        plot = path.with_suffix(".png")
        _plot(release, plot)
        links = {"convergence_link": f"results/{plot.name}", "result_path": f"results/{path.name}"}
        page, lessons = folder / "RESULTS.md", folder / "lessons.md"
        write_atomically(page, results_markdown(spec, result, release.experiments, **links).encode())
        write_atomically(lessons, lessons_markdown(spec, release.lessons).encode())
        return [path, plot, page, lessons]


def kernel_tree(spec: LoadedSpec) -> str | None:
    """The tree of the kernel in the working tree, or None where it can't be read as one."""
    try:
        return read_candidate(spec.folder / "kernel", spec.spec.policy).tree
    except FactoryError:
        return None


def _result_path(folder: Path, stem: str, data: bytes) -> Path:
    """The first free name for a result, or the one that has exactly this content already."""
    number = 1
    while True:
        path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        if not path.exists() or path.read_bytes() == data:
            return path
        number += 1


def _plot(release: Release, path: Path) -> None:
    from bot.dashboard.convergence import write_plot

    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".png", prefix=".plot.")
    os.close(handle)
    try:
        write_plot(
            release.experiments,
            Path(name),
            min_speedup=release.order.accept.min_speedup,
            title=release.spec.spec.title,
        )
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _slug(device: str) -> str:
    """A device's name as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:60] or "device"
