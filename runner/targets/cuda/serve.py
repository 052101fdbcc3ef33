"""Runs inside the worker's sandbox: the trusted launcher. It maps the judge's memory, launches kernels as it is told, and times them.

`python -m runner.targets.cuda.serve SOCKET`. Every message has an `op` and an answer; a failure of the device is the answer's `error`.
It evaluates nothing: names, extents and arguments come computed. `time` takes two messages, `prepare` and `go`, so that the judge's own
clock sees what the device claims.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver as d

from runner.targets.cuda import driver
from runner.targets.cuda.driver import call
from runner.targets.cuda.kernels import Prepared

MESSAGE = 1 << 22
FLUSH_BYTES = 256 << 20

Message = dict[str, Any]


class Server:
    """One device context: binaries by number, and sessions (mapped memory with a call) by number."""

    def __init__(self) -> None:
        self._device = driver.start()
        self.stream = call(d.cuStreamCreate, int(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self._begin, self._end = call(d.cuEventCreate, 0), call(d.cuEventCreate, 0)
        self._modules: dict[int, Any] = {}
        self._sessions: dict[int, Session] = {}
        self._flush: tuple[Any, int] | None = None
        self._scrubber: tuple[int, Prepared] | None = None
        self._graph: Any = None

    def handle(self, message: Message, descriptors: Sequence[int]) -> Message:
        """The answer to one message."""
        handler: Callable[[Message, Sequence[int]], Message] = getattr(self, f"_{message['op']}")
        return handler(message, descriptors)

    def _module(self, message: Message, descriptors: Sequence[int]) -> Message:
        """Load a binary under a number."""
        size = os.fstat(descriptors[0]).st_size
        self._modules[message["id"]] = call(d.cuModuleLoadData, os.pread(descriptors[0], size, 0))
        return {}

    def _unload(self, message: Message, _: Sequence[int]) -> Message:
        call(d.cuModuleUnload, self._modules.pop(message["id"]))
        return {}

    def function(self, module: int, symbol: str) -> Any:
        """A kernel of a loaded binary."""
        return call(d.cuModuleGetFunction, self._modules[module], symbol.encode())

    def variable(self, module: int, symbol: str) -> tuple[int, int]:
        """Address and size of a global variable of a loaded binary."""
        address, size = call(d.cuModuleGetGlobal, self._modules[module], symbol.encode())
        return int(address), int(size)

    def _occupancy(self, message: Message, _: Sequence[int]) -> Message:
        """CTAs that an SM, or clusters that the device, runs at once."""
        prepared = Prepared(self.function(message["module"], message["symbol"]), message)
        return {"value": prepared.active_clusters() if message["clusters"] else prepared.active_ctas()}

    def _open(self, message: Message, descriptors: Sequence[int]) -> Message:
        """Map memory and prepare every set's call."""
        mappings = [
            driver.adopt(descriptor, size, driver.somewhere()) for descriptor, size in zip(descriptors, message["segments"], strict=True)
        ]
        session = self._sessions[message["id"]] = Session(mappings)
        session.calls = self.calls(message, mappings)
        return {}

    def calls(self, message: Message, mappings: Sequence[driver.Mapping]) -> Callable[[int, Any], None]:
        """What one call on a set is: launches of a candidate's kernels."""
        from runner.targets.cuda.kernels import Calls

        return Calls(self, message["call"], _addresses(message, mappings))

    def _close(self, message: Message, _: Sequence[int]) -> Message:
        call(d.cuCtxSynchronize)
        self._sessions.pop(message["id"]).close()
        return {}

    def _trusted(self, message: Message, _: Sequence[int]) -> Message:
        """Use a loaded trusted binary to empty the caches (it reads memory of which nothing is dirty) and to scrub shared memory."""
        memory = driver.allocate(FLUSH_BYTES, driver.somewhere())
        call(d.cuMemsetD8, memory.address, 0, FLUSH_BYTES)
        self._flush = (self.function(message["module"], message["sweep"]), memory.address)
        kind = d.CUdevice_attribute
        shared = call(d.cuDeviceGetAttribute, kind.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, self._device)
        sms = call(d.cuDeviceGetAttribute, kind.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, self._device)
        # Each SM is idle and has room for one of these CTAs only, so that the first of them go to one each.
        launch = {"grid": [2 * sms, 1, 1], "block": [1024, 1, 1], "cluster": [1, 1, 1], "shared": shared}
        self._scrubber = (shared, Prepared(self.function(message["module"], message["scrub"]), launch))
        return {}

    def _prepare(self, message: Message, _: Sequence[int]) -> Message:
        """Capture the calls on these sets, in order, as one graph."""
        self._drop()
        session = self._sessions[message["id"]]
        if message["order"]:
            self._graph = self.capture(session, message["order"])
            call(d.cuGraphUpload, self._graph, self.stream)
        call(d.cuStreamSynchronize, self.stream)
        return {}

    def capture(self, session: Session, order: Sequence[int]) -> Any:
        """An executable graph of the calls."""
        assert session.calls is not None
        call(d.cuStreamBeginCapture, self.stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            for number in order:
                session.calls(number, self.stream)
        except driver.DriverError:
            d.cuStreamEndCapture(self.stream)
            raise
        graph = call(d.cuStreamEndCapture, self.stream)
        try:
            return call(d.cuGraphInstantiate, graph, 0)
        finally:
            call(d.cuGraphDestroy, graph)

    def _go(self, message: Message, _: Sequence[int]) -> Message:
        """Scrub what an earlier call left in shared memory, empty the caches if asked to, then run the prepared graph.

        The sweeps also cover the time that enqueueing takes.
        """
        call(d.cuCtxResetPersistingL2Cache)
        self._scrub()
        for _round in range(2 if message["cold"] else 1):
            self._sweep()
        call(d.cuEventRecord, self._begin, self.stream)
        if self._graph is not None:
            call(d.cuGraphLaunch, self._graph, self.stream)
        call(d.cuEventRecord, self._end, self.stream)
        call(d.cuStreamSynchronize, self.stream)
        call(d.cuCtxSynchronize)
        return {"seconds": float(call(d.cuEventElapsedTime, self._begin, self._end)) / 1e3}

    def _scrub(self) -> None:
        if self._scrubber is None:
            return
        shared, prepared = self._scrubber
        prepared.launch([(int.from_bytes(os.urandom(4), "little"), 4), (shared, 4)], self.stream)

    def _sweep(self) -> None:
        if self._flush is None:
            return
        function, memory = self._flush
        launch = {"grid": [264, 1, 1], "block": [1024, 1, 1], "cluster": [1, 1, 1], "shared": 0}
        Prepared(function, launch).launch([(memory, 8), (FLUSH_BYTES, 8)], self.stream)

    def _drop(self) -> None:
        if self._graph is not None:
            call(d.cuGraphExecDestroy, self._graph)
            self._graph = None


class Session:
    """Mapped memory, and what a call on one of its sets enqueues."""

    def __init__(self, mappings: Sequence[driver.Mapping]) -> None:
        self.mappings = mappings
        self.calls: Callable[[int, Any], None] | None = None

    def close(self) -> None:
        """Forget the calls, and give the memory back."""
        close = getattr(self.calls, "close", None)
        if close is not None:
            close()
        self.calls = None
        for mapping in self.mappings:
            mapping.close()


def _addresses(message: Message, mappings: Sequence[driver.Mapping]) -> list[dict[str, int]]:
    """The address of each block by set and name."""
    return [{name: mappings[segment].address + start for name, (segment, start) in places.items()} for places in message["places"]]


def serve(server: Server, descriptor: int) -> None:
    """Answer messages until the judge hangs up, or the device fails for good."""
    with socket.socket(fileno=descriptor) as channel:
        waiting: list[int] = []
        while True:
            data, ancillary, _flags, _address = channel.recvmsg(MESSAGE, socket.CMSG_SPACE(4 * 250))
            if not data:
                return
            received = array.array("i")
            for _level, _kind, content in ancillary:
                received.frombytes(content[: len(content) - len(content) % received.itemsize])
            waiting += received
            message = json.loads(data)
            if not message:
                continue  # a part that brings descriptors only
            try:
                answer = server.handle(message, waiting)
            except driver.DriverError as error:
                answer = {"error": error.name, "what": error.what}
            for number in waiting:
                os.close(number)
            waiting = []
            channel.send(json.dumps(answer).encode())


if __name__ == "__main__":
    serve(Server(), int(sys.argv[1]))
