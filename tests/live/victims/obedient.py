# SPDX-License-Identifier: Apache-2.0
"""Programs that do what they are told by lines; among them those of this folder in C."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.live.servers.nginx import make_certificate

Obedient = tuple[int, Callable[[str], None]]


@contextlib.contextmanager
def obedient(*command: object) -> Iterator[Obedient]:
    """A program that says "ready", then "done" for each line: its PID, and what gives it one."""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"

        def do(line: str) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        yield process.pid, do
        process.communicate()


SHARED = ("-lssl", "-lcrypto")
STATIC = ("-static", "-l:libssl.a", "-l:libcrypto.a", "-ldl")


def compiled(name: str, folder: Path, libraries: Sequence[str] = SHARED) -> Path:
    """NAME.c of this folder, which uses OpenSSL, compiled into the folder that is given."""
    program = folder / name
    flags = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", program]
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(["cc", *flags, source, *libraries, "-pthread"], check=True)
    return program


def with_certificate(program: Path, certificates: Path) -> AbstractContextManager[Obedient]:
    """Such a program, which is given an ECDSA certificate and its key."""
    pair = make_certificate("ecdsa", certificates)
    return obedient(program, pair.certificate, pair.key)
