"""Runs inside the baseline's sandbox: like the launcher, but a call is a Python function of the spec, over PyTorch tensors.

`python -m runner.targets.cuda.serve_baseline SOCKET`. The function is called once by itself before its calls are captured, so that it
can compile and tune for the shape; a text that it returns then says what it chose.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from runner.targets.cuda import driver
from runner.targets.cuda.serve import Message, Server, Session, _addresses, serve

MODE = "max-autotune-no-cudagraphs"
SPEC = Path("/spec")
MOST_CONFIGS = 16


class BaselineServer(Server):
    """A server whose calls are functions of the spec. Every failure of a function is a `DriverError` with its text."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        super().__init__()
        self._torch_stream = torch.cuda.ExternalStream(int(self.stream))  # type: ignore[no-untyped-call]  # PyTorch has no types here
        self._functions: dict[tuple[str, bool, str], Callable[..., Any]] = {}
        self._chosen: dict[int, str] = {}
        self._sets: dict[int, list[dict[str, Any]]] = {}
        self._warm: set[int] = set()
        self._captured: torch.cuda.CUDAGraph | None = None

    def calls(self, message: Message, mappings: Sequence[driver.Mapping]) -> Callable[[int, Any], None]:
        """A call is the function on the tensors of a set."""
        shapes = repr(message["tensors"])
        function = self._function(message["entry"], message["compile"], shapes)
        sets = [_tensors(message["tensors"], places) | message["scalars"] for places in _addresses(message, mappings)]
        self._sets[message["id"]] = sets
        if message["config"]:
            function = partial(function, config=message["config"])

        def call(number: int, _stream: Any) -> None:
            said = function(**sets[number])
            if isinstance(said, str):
                self._chosen[message["id"]] = said

        return call

    def _function(self, entry: str, compiled: bool, shapes: str) -> Callable[..., Any]:
        """The function that `file.py:name` of the spec's folder names; compiled for its shapes where that is asked for."""
        key = (entry, compiled, shapes if compiled else "")
        if key not in self._functions:
            file, _, name = entry.partition(":")
            spec = importlib.util.spec_from_file_location(Path(file).stem, SPEC / file)
            if spec is None or spec.loader is None:
                raise driver.DriverError(f"{file} can't be imported", "the spec's baseline")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            function = getattr(module, name)
            self._functions[key] = torch.compile(function, dynamic=False, mode=MODE) if compiled else function
        return self._functions[key]

    def handle(self, message: Message, descriptors: Sequence[int]) -> Message:
        """See `Server.handle`."""
        try:
            with torch.cuda.stream(self._torch_stream), torch.no_grad():
                return super().handle(message, descriptors)
        except driver.DriverError:
            raise
        except Exception as error:  # a spec's function may raise anything
            text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            raise driver.DriverError(text, "the spec's baseline") from error

    def _describe(self, message: Message, _: Sequence[int]) -> Message:
        """What the function said that it chose."""
        return {"config": self._chosen.get(message["id"], "")}

    def _configs(self, message: Message, _: Sequence[int]) -> Message:
        """The configurations that a function of the spec finds worth timing, at most `MOST_CONFIGS` of them."""
        begun = time.perf_counter()
        function = self._function(message["entry"], False, "")
        found = [str(text) for text in function(sets=self._sets[message["id"]], seconds=message["seconds"])]
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
        return {
            "configs": found[:MOST_CONFIGS],
            "note": f"the fastest of {len(found[:MOST_CONFIGS])} that a search of {seconds:.0f} s left",
        }

    def _close(self, message: Message, descriptors: Sequence[int]) -> Message:
        self._drop()
        self._sets.pop(message["id"], None)
        self._warm.discard(message["id"])
        answer = super()._close(message, descriptors)
        torch.cuda.empty_cache()
        return answer

    def _prepare(self, message: Message, descriptors: Sequence[int]) -> Message:
        session = self._sessions[message["id"]]
        if message["order"] and message["id"] not in self._warm:
            assert session.calls is not None
            for _ in range(2):
                session.calls(message["order"][0], self.stream)
            torch.cuda.synchronize()
            self._warm.add(message["id"])
        return super()._prepare(message, descriptors)

    def capture(self, session: Session, order: Sequence[int]) -> Any:
        """The calls as one graph of PyTorch's, whose allocator has to know of it; the driver's handle of it is launched like any other."""
        assert session.calls is not None
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph, stream=self._torch_stream, capture_error_mode="relaxed"):
            for number in order:
                session.calls(number, self.stream)
        graph.instantiate()
        self._captured = graph
        return graph.raw_cuda_graph_exec()

    def _drop(self) -> None:
        """PyTorch's graph goes with its own memory."""
        self._graph = None
        self._captured = None


class _Exposed:
    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def _tensors(described: Sequence[dict[str, Any]], places: dict[str, int]) -> dict[str, Any]:
    """A set's tensors by name; None for one that the workload lacks."""
    found: dict[str, Any] = {}
    for one in described:
        if one["name"] not in places:
            found[one["name"]] = None
            continue
        dtype = getattr(torch, one["dtype"])
        size = dtype.itemsize * torch.Size(one["shape"]).numel()
        flat = (
            torch.as_tensor(_Exposed(places[one["name"]], size), device="cuda")
            if size
            else torch.empty(0, dtype=torch.uint8, device="cuda")
        )
        found[one["name"]] = flat.view(dtype).view(one["shape"])
    return found


if __name__ == "__main__":
    serve(BaselineServer(), int(sys.argv[1]))
