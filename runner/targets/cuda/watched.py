"""Runs inside a sandbox, under a tool that watches: makes a candidate's calls, each in fresh memory of this process's own.

`python -m runner.targets.cuda.watched REQUEST`. The request is `{"calls": [{"name", "binary", "blocks": [[name, size, offset]], "inputs":
{name: path}, "call": …, "repeats"}]}`, with `call` as the launcher is told it. Memory is not the judge's here but of the size that was
promised, each block by itself and never written but for the inputs: so that a tool sees every access beyond it, and every read of what
nobody wrote. A line is printed before each call, by which what a tool prints is told apart.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from cuda.bindings import driver as d

from runner.targets.cuda.driver import DriverError, call
from runner.targets.cuda.kernels import Calls
from runner.targets.cuda.serve import Server

MARK = "kernel-runner: call "
FAILED = "kernel-runner: failed "


def main(request: str) -> int:
    """Make the calls in order. The status is 0, or 1 where the device failed one."""
    wanted: dict[str, Any] = json.loads(Path(request).read_text())
    server = Server()
    for number, one in enumerate(wanted["calls"]):
        print(f"{MARK}{one['name']}", flush=True)
        try:
            _make(server, number, one)
        except DriverError as error:
            print(f"{FAILED}{error.name} ({error.what})", flush=True)
            return 1
    return 0


def _make(server: Server, number: int, one: dict[str, Any]) -> None:
    binary = os.open(one["binary"], os.O_RDONLY | os.O_CLOEXEC)
    server.handle({"op": "module", "id": number}, [binary])
    os.close(binary)
    memory = {name: int(call(d.cuMemAlloc, max(1, size + offset))) for name, size, offset in one["blocks"]}
    places = {name: memory[name] + offset for name, _, offset in one["blocks"]}
    for name, path in one["inputs"].items():
        values = Path(path).read_bytes()
        if values:
            call(d.cuMemcpyHtoD, places[name], values, len(values))
    calls = Calls(server, {**one["call"], "module": number}, [places])
    for _repeat in range(one["repeats"]):
        calls(0, server.stream)
    call(d.cuCtxSynchronize)
    for address in memory.values():
        call(d.cuMemFree, address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
