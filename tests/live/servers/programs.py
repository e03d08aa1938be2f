# SPDX-License-Identifier: Apache-2.0
"""Servers that print their port once they listen, among them Python programs of this folder or another."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.live.servers.nginx import make_certificate


@contextmanager
def started(*words: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The server that this command starts, and its port, with which the first line that it prints ends, until the end of the
    block."""
    with subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, int(process.stdout.readline().split()[-1])
        finally:
            process.kill()


@contextmanager
def serving(program: Path, *arguments: object) -> Iterator[tuple[int, int]]:
    """The Python program with these arguments: its PID and port, until the end of the block."""
    with started(sys.executable, program, *arguments) as (process, port):
        yield process.pid, port


def serving_with(program: str, certificates: Path, kind: str, **settings: object) -> AbstractContextManager[tuple[int, int]]:
    """A program of the folder python that takes its settings as one object, among them certificate and key of such a kind."""
    pair = make_certificate(kind, certificates)
    files = {"certificate": str(pair.certificate), "key": str(pair.key)}
    return serving(Path(__file__).with_name("python") / program, json.dumps({**settings, **files}))


def session_server(certificates: Path, answer_s: float) -> AbstractContextManager[tuple[int, int]]:
    """session_program.py: its sessions are looked up in a store that answers late, and knows none. With 0 there is no such
    store, and the library's own cache resumes sessions."""
    return serving_with("session_program.py", certificates, "ecdsa", answer_s=answer_s)
