"""Things in reach of the judge that no candidate may reach: a file, a port, a local socket, a variable, a process.

Cases name them by words such as `CANARY_FILE`; the candidate is right only when it got at the thing, so that an attack that
succeeds shows as an accepted candidate. The file's content is a secret that must not occur in anything the judge says.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

VARIABLE = "KERNEL_FACTORY_ATTACK_CANARY"


@dataclass(frozen=True)
class Canaries:
    """`words` maps each word of a case to what it stands for here; `secret` is what nothing may reveal."""

    words: Mapping[str, str]
    secret: str


@contextlib.contextmanager
def planted() -> Iterator[Canaries]:
    """Plant them all, readable by everybody on this machine, for as long as the suite runs."""
    secret = f"kfsecret{secrets.token_hex(12)}"
    folder = Path(tempfile.mkdtemp(prefix="attack-canary-"))
    folder.chmod(0o755)
    file = folder / "canary.txt"
    # Any line of it is quoted by a compiler that is made to read it: as text, as a header, or in a message.
    file.write_text(f"{secret}\n" * 3)
    file.chmod(0o644)
    name = f"attack-canary-{secrets.token_hex(8)}"
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdin=subprocess.DEVNULL)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = secret
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as port, socket.socket(socket.AF_UNIX) as local:
            local.bind(f"\0{name}")
            local.listen(64)
            words = {
                "CANARY_FILE": str(file),
                "CANARY_PORT": str(port.getsockname()[1]),
                "CANARY_SOCKET": name,
                "CANARY_NAME": VARIABLE,
                "CANARY_PID": str(process.pid),
                "CANARY_JUDGE": str(os.getpid()),
                "CANARY_TORCH": str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"),
            }
            yield Canaries(words, secret)
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
