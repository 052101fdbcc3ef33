"""Runs inside the build sandbox: compiles one candidate with NVRTC to a cubin and PTX. Reads a request, writes an answer; judges nothing.

`python -m runner.targets.cuda.compiling REQUEST FOLDER`. The request is `{"units": [names], "names": [kernel instances], "options": […]}`;
FOLDER receives `kernel.cubin`, `kernel.ptx` and `answer.json`: `{"built", "log", "lowered": {instance: symbol}}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(request: str, folder: str) -> None:
    """Compile; what goes wrong in the candidate is in the answer's log."""
    from cuda.bindings import nvrtc

    wanted: dict[str, Any] = json.loads(Path(request).read_text())
    text = "".join(f'#include "{unit}"\n' for unit in wanted["units"])
    program = _value(nvrtc.nvrtcCreateProgram(text.encode(), b"candidate.cu", 0, [], []))
    for name in wanted["names"]:
        _value(nvrtc.nvrtcAddNameExpression(program, name.encode()))
    options = [option.encode() for option in wanted["options"]]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace").rstrip("\0")
    answer: dict[str, Any] = {"built": int(status) == 0, "log": log, "lowered": {}}
    if answer["built"]:
        for name in wanted["names"]:
            answer["lowered"][name] = _value(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode()
        out = Path(folder)
        (out / "kernel.ptx").write_bytes(_text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0"))
        (out / "kernel.cubin").write_bytes(_text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program))
    (Path(folder) / "answer.json").write_text(json.dumps(answer))


def _value(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(f"NVRTC: {status!r}")
    return values[0] if values else None


def _text(size: Any, get: Any, program: Any) -> bytes:
    room: bytes = b" " * _value(size(program))
    _value(get(program, room))
    return room


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
