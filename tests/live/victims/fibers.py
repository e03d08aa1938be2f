# SPDX-License-Identifier: Apache-2.0
"""The program with stacks of its own, which counts what it calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.live.servers.jobs import PATIENCE_S, line_of, run
from tests.live.servers.nginx import ServerError

_HERE = Path(__file__).resolve().parent
FIBERS = tuple(_HERE / name for name in ("fibers.c", "fibers_calls.c", "fibers_options.c"))


def build_fibers(directory: Path) -> Path:
    """Compile the program with stacks of its own. Its longjmps change stacks, which _FORTIFY_SOURCE would end it for."""
    program = directory / "fibers"
    flags = ("-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE", "-rdynamic")
    run("cc", *flags, "-pthread", "-o", str(program), *map(str, FIBERS))
    return program


class Fibers:
    """The program with stacks of its own, loaded and waiting, from `with` to the end of the block.

    `go` has it do its work and returns its true counts; it lives on until the block ends. `options` are its own: see its usage.
    """

    def __init__(self, program: Path, *options: str) -> None:
        self._command = [str(program), "--wait", *options]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        if line_of(self._output, "fibers") != "ready":
            raise ServerError(f"fibers did not start: {self._end()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        wrong = self._end()
        if error is None and self._process.returncode != 0:
            raise ServerError(f"fibers ended with status {self._process.returncode}: {wrong}")

    @property
    def pid(self) -> int:
        """The process to trace."""
        return self._process.pid

    def begin(self) -> None:
        """Have it begin. With --rounds 0 it goes on until `interrupt`."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def interrupt(self) -> None:
        """Have it end its work after the round that is under way."""
        self._process.terminate()

    def counts(self, timeout_s: float = 60.0) -> dict[str, dict[str, int]]:
        """For each function "entries" and "completed", and of these "success", "failure" and "retry", once its work is done.

        Raises ServerError when it has died instead.
        """
        line = line_of(self._output, "fibers", timeout_s)
        if not line:
            error = self._end()
            raise ServerError(f"fibers ended with status {self._process.returncode} instead of counting: {error}")
        counts: dict[str, dict[str, int]] = json.loads(line)
        return counts

    def go(self, timeout_s: float = 60.0) -> dict[str, dict[str, int]]:
        """`begin`, and its counts once it is done."""
        self.begin()
        return self.counts(timeout_s)

    def _end(self) -> str:
        """What it wrote to standard error. It ends when its input does."""
        if self._process.stdin is None or self._process.stdin.closed:
            return ""
        try:
            return self._process.communicate(timeout=PATIENCE_S)[1].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.communicate()[1].decode(errors="replace").strip()
