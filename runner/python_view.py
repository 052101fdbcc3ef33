"""What a sandboxed Python process sees: the interpreter, the installed packages, this package, and the system's programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import runner
from runner import sandbox

_OPTIONAL = ("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu")


def package_folders() -> list[str]:
    """Folders of installed packages outside the interpreter's own, such as a user's `~/.local/lib/python3.11/site-packages`."""
    return [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages") and Path(entry).is_dir()]


def python_path() -> str:
    """`PYTHONPATH` inside: this package and the installed ones."""
    folders = package_folders()
    # What a `.pth` file of an installed package adds to the path lies within the packages' folders.
    added = [entry for entry in sys.path if entry not in folders and any(entry.startswith(f"{folder}/") for folder in folders)]
    return ":".join([str(Path(runner.__file__).resolve().parent.parent), *folders, *added])


def python_view(
    extra: Mapping[str, Path],
    writable: Mapping[str, Path] | None = None,
    *,
    scratch_bytes: int = 1 << 30,
    proc: bool = True,
    nodes: tuple[str, ...] = (),
) -> sandbox.View:
    """A view in which `sys.executable` runs. `extra` maps further places inside to paths outside; `nodes` are devices that it may use."""
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, str(Path(runner.__file__).resolve().parent)}
    places |= set(package_folders())
    read_only = {place: Path(place) for place in sorted(places) if place != "/usr"}
    read_only |= {place: Path(place) for place in _OPTIONAL if Path(place).exists()}
    view = sandbox.system_view(extra={**read_only, **extra})
    return sandbox.View(view.read_only, dict(writable or {}), view.links, scratch_bytes, proc, devices=True, nodes=nodes)
