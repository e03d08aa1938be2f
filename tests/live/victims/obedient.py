# SPDX-License-Identifier: Apache-2.0
"""Programs that do what they are told by lines."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def obedient(*command: object) -> Iterator[tuple[int, Callable[[str], None]]]:
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
