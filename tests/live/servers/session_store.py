# SPDX-License-Identifier: Apache-2.0
"""The server of session_program.py: its sessions are looked up in a store that answers late, and knows none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.servers.nginx import make_certificate

PROGRAM = Path(__file__).with_name("session_program.py")


@contextmanager
def session_server(certificates: Path, answer_s: float) -> Iterator[tuple[int, int]]:
    """Its PID and port; with 0 there is no such store, and the library's own cache resumes sessions."""
    pair = make_certificate("ecdsa", certificates)
    settings = {"certificate": str(pair.certificate), "key": str(pair.key), "answer_s": answer_s}
    with subprocess.Popen([sys.executable, PROGRAM, json.dumps(settings)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()
