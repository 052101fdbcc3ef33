"""Where the factory keeps what must survive: databases, built kernels, prepared baselines. No worker can write there."""

from __future__ import annotations

import os
from pathlib import Path

from runner.errors import FactoryError

VARIABLE = "KERNEL_FACTORY_STATE"


def state_folder() -> Path:
    """The state folder, made if needed, readable by its owner only.

    `$KERNEL_FACTORY_STATE` names it; else it is `.kernel-factory` in the git repository around the current folder, or in the
    current folder where there is none. Raises `FactoryError` when it can't be made.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named).expanduser().absolute() if named else _repository() / ".kernel-factory"
    return made(folder)


def made(folder: Path) -> Path:
    """The folder itself, made (owner only) if it isn't there. Raises `FactoryError` when that is impossible."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FactoryError(f"cannot make the folder {folder}: {error.strerror}; name another with {VARIABLE}") from None
    return folder


def _repository() -> Path:
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
