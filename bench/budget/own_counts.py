# SPDX-License-Identifier: Apache-2.0
"""What a server counts and times itself, by bench/budget/calls.c in its own process: the truth that estimates are held
against."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.live.servers.nginx import Nginx

from bench.measuring.tracers import BenchError

SOURCE = Path(__file__).resolve().with_name("calls.c")
FUNCTIONS = ("SSL_read", "SSL_write")
SLOT_S = 0.01
_SLOTS, _OCTAVES, _STEPS_LOG2 = 1 << 20, 40, 6
_BUCKETS = _OCTAVES << _STEPS_LOG2


class _Calls(ctypes.Structure):
    _fields_ = (("ended", ctypes.c_uint64 * _SLOTS), ("took", ctypes.c_uint64 * _BUCKETS))


def build_calls(directory: Path) -> Path:
    """Compile the library."""
    library = directory / "calls.so"
    command = ["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"bench/budget/calls.c does not compile (apt-get install gcc): {done.stderr[-500:]}")
    return library


@dataclass(frozen=True)
class Times:
    """How many calls of a function took how long, by bucket of bench/budget/calls.c."""

    buckets: tuple[int, ...]

    def __sub__(self, earlier: Times) -> Times:
        return Times(tuple(new - old for new, old in zip(self.buckets, earlier.buckets, strict=True)))

    def quantile_ns(self, part: float) -> float:
        """The middle of the bucket in which this part of the calls is reached, to 1 %."""
        left = part * sum(self.buckets)
        for bucket, count in enumerate(self.buckets):
            left -= count
            if left <= 0 and count:
                octave, step = divmod(bucket, 1 << _STEPS_LOG2)
                return 2.0**octave * (1 + (step + 0.5) / (1 << _STEPS_LOG2))
        raise BenchError("the server counted no calls.")


class OwnCounts:
    """The memory that the server writes to, a file in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "calls"
        self._began_s = time.monotonic()
        size = ctypes.sizeof(_Calls) * len(FUNCTIONS)
        self.file.write_bytes(bytes(size))
        descriptor = os.open(self.file, os.O_RDWR)
        try:
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._calls = (_Calls * len(FUNCTIONS)).from_buffer(memory)

    def counted(self, function: str, from_s: float, to_s: float) -> float:
        """How many calls of the function ended between two times of the monotonic clock; of the slots at both ends as much as
        lies between. BenchError where the server has counted so long that its slots are used again."""
        if to_s - self._began_s > _SLOTS * SLOT_S:
            raise BenchError("the server has counted for too long: measure in several parts, by --keep.")
        ended = self._calls[FUNCTIONS.index(function)].ended
        total, slot = 0.0, int(from_s / SLOT_S)
        while slot * SLOT_S < to_s:
            within_s = min(to_s, (slot + 1) * SLOT_S) - max(from_s, slot * SLOT_S)
            total += ended[slot % _SLOTS] * within_s / SLOT_S
            slot += 1
        return total

    def times(self, function: str) -> Times:
        """How long all calls so far took."""
        return Times(tuple(self._calls[FUNCTIONS.index(function)].took))


@dataclass
class CountingNginx(Nginx):
    """An nginx whose workers count and time their calls themselves."""

    library: Path = Path()
    counts_file: Path = Path()

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "LD_PRELOAD": str(self.library), "CALLS_FILE": str(self.counts_file)}
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, env=environment)
