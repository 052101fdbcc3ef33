"""Compiles a baseline with torch.compile, and makes of the kernels that were generated one library without any Python around them.

It runs inside the baseline sandbox. The compiled function is run once with recorders in place of its kernels: they note which kernel is
called with which memory. From that a C++ file is made (the kernels' own text, and `kf_call`, which calls them in that order) and compiled
with the flags that inductor would have used. What the library computes is then compared with the function itself.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

_KERNEL = re.compile(r'(extern\s+"C"\s+(?:\w+\s+)?void\s+)kernel\s*\(')
_FOREIGN = re.compile(r"\b(extern_kernels\.\w+|torch\.ops\.[\w.]+|aten\.[\w.]+)\(")


class NotCaptured(Exception):
    """The compiled function can't be had without Python; the message says why."""


@dataclass
class Recorder:
    """Stands where inductor's kernels would: keeps their texts and what they are called with (alive, so that no address is used twice)."""

    sources: list[tuple[list[str], str]] = field(default_factory=list)
    calls: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)

    def binding(self, types: list[str], source: str) -> Callable[..., None]:
        """What `cpp_pybinding` returns in a recorded compilation."""
        number = len(self.sources)
        self.sources.append((types, source))

        def kernel(*arguments: Any) -> None:
            self.calls.append((number, arguments))

        return kernel


def capture(function: Callable[..., None], arguments: Mapping[str, Any], names: list[str]) -> tuple[Path, str]:
    """The library whose `kf_call` takes the addresses of the tensors `names` and does what the function does, and a description.

    `arguments` are tensors and numbers as the function gets them. Raises `NotCaptured`.
    """
    recorder, generated = _record(function, arguments)
    foreign = _FOREIGN.search(generated.partition("def call(")[2].partition("def benchmark_compiled_module")[0])
    if foreign:
        raise NotCaptured(f"it calls {foreign[1]}")
    source = _library_source(recorder, {name: arguments[name] for name in names})
    library, path = _compile(source)
    _verify(library, function, arguments, names)
    found = re.findall(r"\b(cpp_fused_\w+) = async_compile", generated)
    return path, f"{len(recorder.calls)} native kernels ({', '.join(found) or 'nothing to do'})"


def _record(function: Callable[..., None], arguments: Mapping[str, Any]) -> tuple[Recorder, str]:
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.utils import run_and_get_code

    recorder = Recorder()
    original = AsyncCompile.cpp_pybinding
    setattr(AsyncCompile, "cpp_pybinding", lambda _self, types, source: recorder.binding(types, source))  # noqa: B010 # for mypy, too
    try:
        with (
            torch._inductor.config.patch(compile_threads=1, fx_graph_cache=False),
            torch._functorch.config.patch(enable_autograd_cache=False),
        ):
            compiled = torch.compile(function, dynamic=False, fullgraph=True)
            _, codes = run_and_get_code(compiled, **arguments)
    except Exception as error:  # dynamo and inductor raise many kinds; each means that Python stays in the way
        raise NotCaptured(f"torch.compile: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}") from error
    finally:
        setattr(AsyncCompile, "cpp_pybinding", original)  # noqa: B010 # for mypy, too
    if len(codes) > 1:
        raise NotCaptured(f"torch.compile made {len(codes)} graphs of it")
    return recorder, codes[0] if codes else ""


def _library_source(recorder: Recorder, tensors: Mapping[str, torch.Tensor]) -> str:
    texts = []
    for number, (_types, source) in enumerate(recorder.sources):
        renamed, count = _KERNEL.subn(rf"\g<1>kf_kernel_{number}(", source)
        if count != 1:
            raise NotCaptured("a generated kernel has an unknown form")
        texts.append(renamed)
    ranges = [(tensor.data_ptr(), tensor.untyped_storage().nbytes(), name) for name, tensor in tensors.items() if tensor.numel()]
    scratch: dict[int, int] = {}
    lines = []
    for number, arguments in recorder.calls:
        types = recorder.sources[number][0]
        values = [_value(kind, argument, ranges, list(tensors), scratch) for kind, argument in zip(types, arguments, strict=True)]
        lines.append(f"    kf_kernel_{number}({', '.join(values)});")
    buffers = [f"alignas(64) static char kf_scratch_{index}[{size}];" for index, size in enumerate(scratch.values())]
    call = ["#include <cstdint>", *buffers, 'extern "C" void kf_call(const std::uint64_t* words) {', *lines, "}", ""]
    return "\n".join([*texts, *call])


def _value(kind: str, argument: Any, ranges: list[tuple[int, int, str]], names: list[str], scratch: dict[int, int]) -> str:
    """An argument as C++: a tensor's word plus an offset, a scratch buffer, or a number."""
    if not isinstance(argument, torch.Tensor):
        return f"static_cast<{kind}>({argument!r})"
    address = argument.data_ptr()
    for start, size, name in ranges:
        if start <= address < start + size:
            return f"reinterpret_cast<{kind}>(words[{names.index(name)}] + {address - start})"
    storage = argument.untyped_storage()
    scratch.setdefault(storage.data_ptr(), max(1, storage.nbytes()))
    return f"reinterpret_cast<{kind}>(kf_scratch_{list(scratch).index(storage.data_ptr())} + {address - storage.data_ptr()})"


def _compile(source: str) -> tuple[ctypes.CDLL, Path]:
    from torch._inductor.codecache import CppCodeCache, _get_cpp_prefix_header

    class Plain(CppCodeCache):
        """Inductor's way to compile a kernel, with its flags and precompiled header, but without the Python binding."""

        cpp_compile_command_flags = {"include_pytorch": False, "shared": True}  # noqa: RUF012 # as the base class has it

        @classmethod
        def _get_uncompiled_header(cls, device: str) -> str | None:
            header: str | None = _get_cpp_prefix_header(device)
            return header

    try:
        library: ctypes.CDLL = Plain.load(source)
    except Exception as error:  # inductor's compile errors are of many kinds
        raise NotCaptured(f"its kernels do not compile together: {type(error).__name__}") from error
    return library, Path(library._name)


def _verify(library: ctypes.CDLL, function: Callable[..., None], arguments: Mapping[str, Any], names: list[str]) -> None:
    """Compare what the library leaves with what the function leaves, on the recorded arguments."""
    mine = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    theirs = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    words = (ctypes.c_uint64 * len(names))(*(mine[name].data_ptr() for name in names))
    library.kf_call(words)
    function(**theirs)
    for name in names:
        try:
            torch.testing.assert_close(mine[name], theirs[name], equal_nan=True)
        except AssertionError:
            raise NotCaptured(f"its kernels alone give another {name}") from None
