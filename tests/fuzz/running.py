# SPDX-License-Identifier: Apache-2.0
"""Runs a target for a while in a process of its own, which ends with this one, and keeps account of how much was tried."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import Check

LONGEST_S, MOST_MB = 10, 1024  # what one input may take: processor time, and memory of the whole process
_HANGS_S = 300  # by the clock, where the processor's time isn't seen to pass: in one call of C
_PR_SET_PDEATHSIG = 1
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


class TookTooLong(BaseException):
    """One input took more than LONGEST_S. Nothing that is tried catches it."""


def _limit_memory() -> None:
    """Lets this process take MOST_MB more than it has."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (has + (MOST_MB << 20),) * 2)


def _too_long(*_: object) -> None:
    raise TookTooLong(f"more than {LONGEST_S} s of processor time")


@dataclass(frozen=True)
class Bounds:
    """How long, and how many inputs at most (0: no bound); `seed` makes it the same again."""

    seconds: float
    runs: int
    seed: int


@dataclass(frozen=True)
class Prepared:
    """A target that can be run: its seeds are made, or kept. `corpus` is the folder of those, and of what was learned."""

    name: str
    check: Check
    seeds: Sequence[bytes]
    most_bytes: int
    corpus: Path


class Turn:
    """One target being tried by a process of its own."""

    def __init__(self, target: Prepared, bounds: Bounds, folder: Path, *, led: bool) -> None:
        self.target, self.bounds = target, bounds
        self._folder, self._led = folder, led
        self._count = mmap.mmap(-1, 8)
        self._began = time.monotonic()
        self.log = folder / "logs" / f"{target.name}.log"
        for each in (self.log.parent, folder / "crashes", target.corpus):
            each.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._be_child(parent)

    @property
    def tried(self) -> int:
        """How many inputs so far."""
        return int(struct.unpack("<Q", self._count[:8])[0])

    def ended(self, status: int) -> bool:
        """Keeps account of it; whether every invariant held."""
        kind, seconds = "led" if self._led else "random", time.monotonic() - self._began
        line = (self.target.name, kind, self.bounds.seed, self.tried, f"{seconds:.0f}", os.waitstatus_to_exitcode(status))
        with (self._folder / "executions.tsv").open("a") as file:
            file.write("\t".join(map(str, line)) + "\n")
        return status == 0

    def _be_child(self, parent: int) -> None:
        status = 1
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
            _limit_memory()
            os.dup2(log, 1)
            os.dup2(log, 2)
            (self._lead if self._led else self._wander)()
            status = 0
        except SystemExit as ended:  # atheris has shown why
            status = int(bool(ended.code))
        except BaseException:
            with self.log.open("a") as file:
                traceback.print_exc(file=file)
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _counted(self) -> Check:
        signal.signal(signal.SIGVTALRM, _too_long)
        check, count, pack = self.target.check, self._count, struct.Struct("<Q").pack_into
        tried = 0

        def counted(data: bytes) -> None:
            nonlocal tried
            tried += 1
            pack(count, 0, tried)
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
                check(data)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            except BaseException:
                name = f"{self.target.name}-{hashlib.sha256(data).hexdigest()[:16]}"
                (self._folder / "crashes" / name).write_bytes(data)
                raise

        return counted

    def _lead(self) -> None:
        """By which code is reached; ends the process."""
        import atheris

        corpus = self.target.corpus
        for number, seed in enumerate(self.target.seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        bounds = (
            f"-max_len={self.target.most_bytes}",
            f"-timeout={_HANGS_S}",
            f"-report_slow_units={_HANGS_S}",
            f"-rss_limit_mb={MOST_MB}",
            f"-max_total_time={self.bounds.seconds:.0f}",
            f"-seed={self.bounds.seed}",
            f"-artifact_prefix={self._folder / 'crashes' / self.target.name}-",
            "-print_final_stats=1",
            *((f"-runs={self.bounds.runs}",) if self.bounds.runs else ()),
        )
        atheris.Setup([sys.argv[0], str(corpus), *bounds], self._counted())
        atheris.Fuzz()

    def _wander(self) -> None:
        """At random."""
        check, chance = self._counted(), random.Random(self.bounds.seed)
        for data in self.target.seeds:
            check(data)
        while time.monotonic() < self._began + self.bounds.seconds and not 0 < self.bounds.runs <= self.tried:
            check(changed(chance.choice(self.target.seeds), chance)[: self.target.most_bytes])


def changed(seed: bytes, chance: random.Random) -> bytes:
    """The seed with some bytes overwritten, or cut short."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        at = chance.randrange(len(data))
        data[at] = chance.choice((*_INTERESTING, chance.randrange(256)))
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.05 else data)


def totals(folder: Path) -> Counter[str]:
    """How many inputs have been tried of each target, by what is kept in the folder."""
    tried: Counter[str] = Counter()
    file = folder / "executions.tsv"
    for line in file.read_text().splitlines() if file.exists() else ():
        name, _, _, count, *_ = line.split("\t")
        tried[name] += int(count)
    return tried


def take_turns(
    targets: Sequence[Prepared], begin: Callable[[Prepared], Turn | None], jobs: int, told: Callable[[Turn, bool], object]
) -> bool:
    """Gives each target its turns, as long as `begin` begins one, so many at once; whether every invariant held."""
    waiting, running, held = list(targets), dict[int, Turn](), True
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                target = waiting.pop(0)
                turn = begin(target)
                if turn is not None:
                    running[turn.pid] = turn
            if not running:
                break
            pid, status = os.wait()
            if pid not in running:
                continue
            turn = running.pop(pid)
            good = turn.ended(status)
            told(turn, good)
            held &= good
            if good:
                waiting.append(turn.target)  # one that has found something would find it again
    finally:
        for turn in running.values():
            os.kill(turn.pid, signal.SIGKILL)
            turn.ended(os.waitpid(turn.pid, 0)[1])
    return held
