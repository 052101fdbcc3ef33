"""Finds g++, and compiles this project's own C++ (launcher, clock, copies) once into the state folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from runner.errors import FactoryError
from runner.state import made, state_folder

SOURCES = Path(__file__).parent / "native"
LIBRARIES = ("libgomp.so.1", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6")
OPTIONAL_LIBRARIES = ("libmvec.so.1", "libpthread.so.0", "libdl.so.2")  # vector mathematics; parts of older C libraries
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


@lru_cache(maxsize=1)
def compiler() -> Path:
    """The real path of g++. Raises `FactoryError` with the remedy."""
    found = shutil.which("g++")
    if found is None:
        raise FactoryError("there is no C++ compiler: `apt-get install g++` (or your system's package of it)")
    return Path(found).resolve()


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """The first line of `g++ --version`."""
    return _said(str(compiler()), "--version").splitlines()[0]


@lru_cache(maxsize=1)
def runtime_libraries() -> dict[str, Path]:
    """The shared libraries that built code needs at run time, and the loader as `ld.so`: name to real file."""
    found = {"ld.so": _library(LOADERS.get(os.uname().machine, "ld.so"))}
    for name in LIBRARIES:
        found[name] = _library(name)
    for name in OPTIONAL_LIBRARIES:
        with contextlib.suppress(FactoryError):
            found[name] = _library(name)
    return found


def _library(name: str) -> Path:
    path = Path(_said(str(compiler()), f"-print-file-name={name}").strip())
    if not path.is_absolute():
        raise FactoryError(f"the C++ compiler's library {name} isn't installed; reinstall g++")
    return path.resolve()


@lru_cache(maxsize=8)
def trusted(name: str, *flags: str) -> Path:
    """Compile `native/NAME.cpp` into the state folder, once for each text and compiler. A library when `flags` hold `-shared`."""
    digest = hashlib.sha256("\0".join([compiler_version(), *flags]).encode())
    for source in sorted(SOURCES.iterdir()):
        if source.stem == name or source.suffix == ".hpp":
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = made(state_folder() / "native") / f"{name}-{digest.hexdigest()[:24]}{'.so' if '-shared' in flags else ''}"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / "built"
        line = [str(compiler()), "-std=c++20", "-O2", "-Wall", "-Wextra", "-o", str(built), str(SOURCES / f"{name}.cpp"), *flags]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FactoryError(f"g++ could not compile {name}.cpp of this project ({compiler_version()}):\n{done.stderr.strip()[-2000:]}")
        built.replace(target)
    return target


def launcher() -> Path:
    """The program in which candidates run. Every library that they may need is loaded before they are."""
    return trusted("launcher", "-Wl,--no-as-needed", "-lgomp", "-lm", "-lstdc++", "-lgcc_s", "-ldl")


def copies_library() -> Path:
    """The tuned copies, for the launcher."""
    return trusted("copies", "-shared", "-fPIC", "-fopenmp")


def serve_library() -> Path:
    """The serving loop for a baseline's Python process."""
    return trusted("serve", "-shared", "-fPIC")


def clock_library() -> Path:
    """The judge's clock, for `ctypes`."""
    return trusted("clock", "-shared", "-fPIC", "-pthread")


def _said(*line: str) -> str:
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    if done.returncode != 0:
        raise FactoryError(f"`{' '.join(line)}` failed: {done.stderr.strip()[-500:]}")
    return done.stdout
