"""Checks the files that a spec names: functions are looked up in the syntax tree of their file, which is never imported."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.errors import Fault
from runner.files import read_regular
from runner.spec.draft import Draft
from runner.spec.models import AgentSpec, Baseline, Entry, SpecId
from runner.yaml_source import Path as Place

MAX_BYTES = 1_000_000


def check_files(draft: Draft, folder: Path) -> Iterator[Fault]:
    """Every fault in what the spec says of its folder: its name, the functions, the kernels that agents start from."""
    name = folder.resolve().name
    spec_id = draft.one(("id",), SpecId)
    if spec_id is not None and spec_id != name:
        yield draft.source.fault(("id",), f"`id` is `{spec_id}`, but the folder is called `{name}`; both must be the same")
    inputs, outputs, scalars = (draft.names((section,)) for section in ("inputs", "outputs", "scalars"))
    entries: list[tuple[Place, str, list[str]]] = []
    reference = draft.one(("reference",), Entry)
    if reference is not None:
        entries.append((("reference",), reference, [*inputs, *scalars]))
    for path, baseline in draft.items(("baselines",), Baseline):
        tuned = ["config"] if baseline.configs is not None else []
        entries.append(((*path, "entry"), baseline.entry, [*inputs, *outputs, *scalars, *tuned]))
        if baseline.configs is not None:
            entries.append(((*path, "configs"), baseline.configs, ["sets", "seconds"]))
    broken: set[str] = set()
    for path, entry, arguments in entries:
        yield from _check_entry(draft, folder, path, entry, arguments, broken)
    for path, agent in draft.items(("agents",), AgentSpec):
        if not (folder / agent.start / "launch.yaml").is_file():
            message = f"there is no kernel `{agent.start}`: the file `{agent.start}/launch.yaml` is missing{_kernels(folder)}"
            yield draft.source.fault((*path, "start") if (*path, "start") in draft.source.values else path, message)


def _kernels(folder: Path) -> str:
    found = sorted(
        path.parent.relative_to(folder).as_posix() for pattern in ("kernel", "seeds/*") for path in folder.glob(f"{pattern}/launch.yaml")
    )
    return f"; there are: {', '.join(found)}" if found else ""


def _check_entry(draft: Draft, folder: Path, path: Place, entry: str, arguments: Sequence[str], broken: set[str]) -> Iterator[Fault]:
    """The file is there, parses, and defines the function with these arguments. A broken file is reported once."""
    file, _, function = entry.partition(":")
    try:
        tree = _parse(folder / file)
    except OSError as error:
        yield draft.source.fault(path, f"`{file}` can't be read in the spec's folder: {error.strerror}")
        return
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if file not in broken:
            line, column = (error.lineno or 1, error.offset or 1) if isinstance(error, SyntaxError) else (1, 1)
            yield Fault(
                str(folder / file), line, max(column, 1), f"not valid Python: {error.msg if isinstance(error, SyntaxError) else error}"
            )
        broken.add(file)
        return
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if function not in defined:
        yield draft.source.fault(path, f"`{file}` defines no function `{function}`; it defines: {', '.join(defined) or 'none'}")
        return
    yield from _check_arguments(draft, path, entry, defined[function], arguments)


def _check_arguments(draft: Draft, path: Place, entry: str, function: ast.FunctionDef, wanted: Sequence[str]) -> Iterator[Fault]:
    """The function can be called with exactly these arguments by name."""
    arguments = function.args
    by_name = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    with_default = {argument.arg for argument in arguments.args[len(arguments.args) - len(arguments.defaults) :]}
    with_default |= {
        argument.arg for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
    }
    missing = [name for name in wanted if name not in by_name] if arguments.kwarg is None else []
    excess = [argument.arg for argument in arguments.posonlyargs]
    excess += [name for name in by_name if name not in wanted and name not in with_default]
    call = f"it is called by name with {', '.join(wanted)}"
    if missing:
        yield draft.source.fault(path, f"`{entry}` has no argument {', '.join(f'`{name}`' for name in missing)}; {call}")
    if excess:
        yield draft.source.fault(path, f"`{entry}` needs {', '.join(f'`{name}`' for name in excess)}, which it is not given; {call}")


def _parse(path: Path) -> ast.Module:
    """The syntax tree of a regular file of moderate size. Raises `OSError`, `SyntaxError` or `ValueError`."""
    data = read_regular(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file has more than {MAX_BYTES} bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python warns of in a person's file is not this command's business
        return ast.parse(data)
