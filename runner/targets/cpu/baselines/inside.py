"""The program inside the baseline sandbox: imports PyTorch once, then forks a fresh process for every request.

Usage: python -m runner.targets.cpu.baselines.inside SOCKET_FD. A request is one JSON message with descriptors: the socket for the
answer, and for `serve` the arena. A process forked for `serve` obeys the judge's clock from then on; one forked for `prepare` takes
further requests on its own socket, because a warm compiler is five times as fast. The first process never computes anything, so that
no thread exists that a fork would lose.
"""

from __future__ import annotations

import array
import bisect
import ctypes
import gc
import importlib.util
import json
import mmap
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

MESSAGE = 1 << 20
LAYOUT = 16 * 4096


def load_function(entry: str) -> Callable[..., None]:
    """The function that `file.py:name` of the spec folder names."""
    file, _, name = entry.partition(":")
    sys.path.insert(0, "/spec")
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path("/spec") / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., None] = getattr(module, name)
    return function


def prepare(request: dict[str, Any]) -> dict[str, Any]:
    """Compile and capture: the answer holds the library's path, or the reason why there is none."""
    from runner.targets.cpu.baselines.capture import NotCaptured, capture

    torch._dynamo.reset()
    torch.manual_seed(1)
    arguments: dict[str, Any] = {}
    for tensor in request["tensors"]:
        dtype = getattr(torch, tensor["dtype"])
        made = torch.randn(tensor["shape"]) if dtype.is_floating_point else torch.randint(0, 2, tensor["shape"])
        arguments[tensor["name"]] = made.to(dtype)
    arguments.update(request["scalars"])
    try:
        path, text = capture(load_function(request["entry"]), arguments, [tensor["name"] for tensor in request["tensors"]])
    except NotCaptured as error:
        return {"reason": str(error)}
    return {"library": str(path.resolve().relative_to("/cache")), "text": text}


def addresses(arena: int) -> Callable[[int], int]:
    """Where places of the arena's file lie in this process, from its layout (see `native/serve.hpp`)."""
    with mmap.mmap(arena, LAYOUT + 24, prot=mmap.PROT_READ) as head:
        size = struct.unpack_from("<Q", head, LAYOUT + 8)[0]
    with mmap.mmap(arena, LAYOUT + 8 * size, prot=mmap.PROT_READ) as layout:
        entries = list(struct.iter_unpack("<3Q", layout[LAYOUT + 24 :]))

    def address(place: int) -> int:
        start, _, base = entries[bisect.bisect_right(entries, place, key=lambda entry: entry[0]) - 1]
        return int(base + place - start)

    return address


def serve(request: dict[str, Any], arena: int, answer: socket.socket) -> NoReturn:
    """Call the function for each slot that the judge orders, for ever."""
    library = ctypes.CDLL("/serve.so")
    library.kf_attach.restype = ctypes.c_void_p
    control = library.kf_attach(arena)
    address = addresses(arena)
    function = load_function(request["entry"])
    if request["compile"]:
        function = torch.compile(function, dynamic=False)
    slots = []
    for places in request["places"]:
        arguments: dict[str, Any] = dict(request["scalars"])
        for tensor, start in zip(request["tensors"], places, strict=True):
            dtype = getattr(torch, tensor["dtype"])
            size = dtype.itemsize * torch.Size(tensor["shape"]).numel()
            memory = (ctypes.c_char * max(size, 1)).from_address(address(start))
            flat = torch.frombuffer(memory, dtype=torch.uint8)[:size]
            arguments[tensor["name"]] = flat.view(dtype).view(tensor["shape"])
        slots.append(arguments)
    # The first call compiles and starts threads; it happens before the worker is ready.
    function(**slots[0])

    def call(slot: int) -> None:
        function(**slots[slot])

    # What was made so far stays; collecting it again and again would be charged to the calls.
    gc.freeze()
    gc.disable()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(call)
    library.kf_serve.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    send(answer, {"serving": True})
    library.kf_serve(control, ctypes.cast(callback, ctypes.c_void_p))
    os._exit(1)


def send(answer: socket.socket, message: dict[str, Any]) -> None:
    """Send one message; the receiver's kernel adds this process's pid as the receiver sees it."""
    answer.send(json.dumps(message).encode())


def handle(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Do what one request asks, in this forked process, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with socket.socket(fileno=descriptors[0]) as answer:
        try:
            send(answer, {"started": True})
            if request["kind"] == "serve":
                serve(request, descriptors[1], answer)
            while True:
                send(answer, prepare(request))
                data = answer.recv(MESSAGE)
                if not data:
                    os._exit(0)
                request = json.loads(data)
        except BaseException as error:  # noqa: BLE001 # whatever a spec's own code raises is told to the judge
            traceback.print_exc()
            send(answer, {"error": f"{type(error).__name__}: {error}"[:2000]})
            os._exit(1)


def main() -> None:
    """Serve requests until the judge's end of the socket is closed."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, ancillary, _flags, _address = requests.recvmsg(MESSAGE, socket.CMSG_SPACE(4 * 2))
        if not data:
            return
        descriptors = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content)
        if os.fork() == 0:
            requests.close()
            handle(json.loads(data), list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
