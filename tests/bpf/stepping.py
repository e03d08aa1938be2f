# SPDX-License-Identifier: Apache-2.0
"""One instruction under a probe, in a process of its own: whether it does what it did without, and how the kernel ran it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ssllatency.code.machine import Cost, Emulation, Instruction
from ssllatency.engines.bpf.perf import open_uprobe
from ssllatency.host import kernel
from ssllatency.probes.planner import machine_of
from tests.bpf.instructions import Snippet

ARGUMENTS = (0, 1, 2, 3, 4, 5, 8, -1, -(1 << 63), (1 << 63) - 1, 1 << 33)
SIZE, READ_EXECUTE, PRIVATE = 4096, 5, 2
_WORDS = struct.Struct(f"<{len(ARGUMENTS)}q")


def instruction(snippet: Snippet) -> Instruction:
    """The one at the site, as the planner sees it: in the code from the function's beginning on."""
    decoded = machine_of(kernel.machine()).decode(snippet.code, 0)
    return next(each for each in decoded if each.address == snippet.site)


def expected(each: Instruction) -> Cost | None:
    """What the planner expects of this kernel."""
    version = kernel.release()
    return each.cost(Emulation(multibyte_nops=version >= (6, 16, 0), optimised_nop5=version >= (6, 18, 0)))


@dataclass
class Process:
    """A process that has mapped the function, and calls it with each of ARGUMENTS whenever it is told to."""

    pid: int
    commands: int
    answers: int

    def results(self) -> tuple[int, ...]:
        """What the calls returned. EOFError where the process died of them."""
        os.write(self.commands, b"\0")
        answer = os.read(self.answers, _WORDS.size)
        if len(answer) != _WORDS.size:
            raise EOFError(f"the process ended with status {os.waitpid(self.pid, 0)[1]}")
        return _WORDS.unpack(answer)

    def single_steps(self) -> bool:
        """Whether the kernel has had to step an instruction elsewhere in this process."""
        return any(line.endswith("[uprobes]") for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines())


def _call_when_told(path: Path, commands: int, answers: int) -> NoReturn:
    """The process's own part."""
    try:
        library = ctypes.CDLL(None)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
        address = library.mmap(None, SIZE, READ_EXECUTE, PRIVATE, os.open(path, os.O_RDONLY), 0)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
        while os.read(commands, 1):
            os.write(answers, _WORDS.pack(*map(function, ARGUMENTS)))
    finally:
        os._exit(0)


@contextmanager
def running(path: Path) -> Iterator[Process]:
    """The process, until the end of the block."""
    told, commands = os.pipe()
    answers, answering = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(commands)
        _call_when_told(path, told, answering)
    os.close(told)
    os.close(answering)
    try:
        yield Process(pid, commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        with suppress(ChildProcessError):  # it ended before
            os.waitpid(pid, 0)


@contextmanager
def probed(path: Path, offset: int, pid: int) -> Iterator[int]:
    """A uprobe that only counts: the descriptor from which its hits are read."""
    event = open_uprobe(str(path), offset, pid, at_return=False)
    try:
        yield event
    finally:
        os.close(event)


def hits(event: int) -> int:
    """How often the site was hit so far."""
    return int(struct.unpack("<Q", os.read(event, 8))[0])


def check(snippet: Snippet, cost: Cost, folder: Path) -> None:
    """AssertionError where the kernel runs the snippet's instruction at a higher cost than that, or not to the same effect.

    `folder` is one in which files can be executed.
    """
    path = folder / "code"
    path.write_bytes(snippet.code.ljust(SIZE, b"\0"))
    with running(path) as process:
        plain = process.results()
        assert process.results() == plain
        with probed(path, snippet.site, process.pid) as event:
            assert [process.results() for _ in range(3)] == [plain] * 3, "it has another effect with a probe"
            assert hits(event) == 3 * len(ARGUMENTS), "the probe isn't hit at each call"
            # What is planned as stepped may have become cheaper, as nops of 5 bytes after Linux 6.18.
            assert cost is Cost.SINGLE_STEPPED or not process.single_steps(), f"it isn't {cost}"
        assert process.results() == plain, "it has another effect after the probe"
