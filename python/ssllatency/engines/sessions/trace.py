# SPDX-License-Identifier: Apache-2.0
"""Attaches what `ssllatency trace` counts and reads it: the same for every engine that fills the kernel side's maps.

Kernel memory, made at the start but for goroutines: one row of 4.5 KiB for each function, outcome and process that occurs, at
most ROWS of them and one for each outcome of each operation under "other"; 1.5 MiB for the set of processes; 16 Ki running
calls of 24 bytes, and as many in overflow; 1 MiB for the buckets of goroutines, and while Go's calls run 0.3 KiB for each
goroutine that makes one, 18 MiB at most. Where later files are taken in, all operations have their rows. The sum:
docs/measured/memory.md.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ssllatency import abi
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.images import not_traced, unreadable
from ssllatency.engines.base import LinearRange, TracedImage
from ssllatency.engines.budget.gates import Gates, JointGates
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.read import collect
from ssllatency.engines.read.unchanged import Unchanged
from ssllatency.engines.sessions.windowed import ending_if_refused, windows_of
from ssllatency.engines.source import Ability
from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import Single
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.keyed import KeyedCache
from ssllatency.model.sampling import Function, Sampling
from ssllatency.model.snapshot import Losses, Series, Snapshot, Target
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.stacks.operation import Tier

ROWS = 2048
GAVE_UP = (
    "Attached in this way probes can't be removed and set again (uprobe_multi, which came with Linux 6.6, can): what would have"
    " cost more than the budget was given up."
)
_BLANK = bytes(ctypes.sizeof(abi.Series))


def set_linear(config: ctypes.Structure, linear: LinearRange) -> None:
    """Tells the programs the linear histogram's buckets."""
    config.linear_minimum_ns, config.linear_step_ns = linear.minimum * 1000, linear.step * 1000
    config.linear_buckets, config.linear_reciprocal = linear.buckets, (1 << 32) // config.linear_step_ns


def _row(operations: Sequence[str], linear: LinearRange, raw_key: bytes, raw_row: memoryview) -> collect.SeriesRow | None:
    """None for a row in which nothing was counted."""
    raw = bytes(raw_row)
    if raw == _BLANK:
        return None
    key, row = abi.SeriesKey.from_buffer_copy(raw_key), abi.Series.from_buffer_copy(raw)
    return collect.SeriesRow(key, row, operations, linear)


class TraceSession:
    """The probes of one request. `engine` is the name that the snapshots bear; `attachment` grows with later processes."""

    abilities = Ability.FUNCTIONS | Ability.FOLLOW | Ability.BUDGET

    def __init__(self, attachment: Attachment, engine: str) -> None:
        self.attachment, self._engine = attachment, engine
        self._request, self._operations = attachment.request, attachment.operations
        self._extremes = collect.Extremes(self._request.extremes)
        # Not a method: what refers to itself is only freed when Python gets to it, and with it what is mapped.
        self._rows = Unchanged(partial(_row, self._operations, self._request.linear))
        self._reads = False  # whether the rows were read just now
        self._sums: KeyedCache[Function, ExponentialHistogram, ExponentialHistogram] = KeyedCache(ExponentialHistogram.added)
        self._windows: Windows | None = None
        self._forgotten: dict[Function, list[ExponentialHistogram]] = {}  # of processes that were forgotten

    def attach(self, *, begin_windows: bool = True) -> None:
        """Loads the programs, fills their maps and attaches: all probes or none. With a budget `begin_windows` has to be called
        later where it isn't here."""
        try:
            self._start()
            if begin_windows:
                self.begin_windows()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._configure()
        self.attachment.load()
        self._fill_maps()
        if self._request.budget is not None:
            self.attachment.hold([Tier.DATA])
        self.attachment.attach()

    def begin_windows(self, *also: Gates) -> None:
        """Keeps the budget from here on, if there is one, and watches reads and writes, which were held back until now. `also`:
        the gates of what is attached beside this. AttachError where the kernel refuses."""
        if self._request.budget is not None:
            gates = JointGates(self.attachment, *also) if also else None
            self._windows = windows_of(self.attachment, self._request.budget, gates, self._totals)
            self._windows.start(self.attachment.held)

    def _configure(self) -> None:
        linear, opened = self._request.linear, self.attachment.object
        if linear.buckets > abi.Geometry.LINEAR_BUCKETS:
            raise SsllatencyError(
                f"the linear histogram has at most {abi.Geometry.LINEAR_BUCKETS.value} buckets: take wider steps.", 2
            )
        set_linear(opened.section(".rodata.config", abi.Config), linear)
        opened.resize_map("series", ROWS)
        opened.resize_map("other_series", max(1, len(self._other_rows())))
        opened.resize_map("processes", self._request.maximum_processes)

    def _fill_maps(self) -> None:
        loaded = self.attachment.object
        sizes = ctypes.sizeof(abi.SeriesKey), ctypes.sizeof(abi.Series)
        self._series, self._other = loaded.map("series", *sizes), loaded.map("other_series", *sizes)
        self._processes = loaded.map("processes", 4, ctypes.sizeof(abi.Process))
        self._folded = loaded.map("folded", 4, 1)
        blank = abi.Series()
        for key in self._other_rows():
            self._other.update(key, blank)

    def _other_rows(self) -> list[abi.SeriesKey]:
        """The keys of the rows of "other"."""
        numbered = enumerate(map(BY_NAME.__getitem__, self._operations))
        return [abi.SeriesKey(0, number, outcome) for number, operation in numbered for outcome in operation.outcomes]

    def extend(self, images: Sequence[TracedImage]) -> None:
        """Attaches files that came later, all or nothing. AttachError where the kernel refuses."""
        self.attachment.extend(images)
        self._look_soon()

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""
        self.attachment.include(index, pids)
        self._look_soon()

    def _look_soon(self) -> None:
        if self._windows:
            self._windows.look_soon()

    def detach(self) -> None:
        """Removes the probes; calls that run on are in flight, not lost."""
        self.finish_windows()
        self.attachment.detach()

    def finish_windows(self) -> None:
        """Ends the account of what was seen in windows; may be called twice."""
        if self._windows:
            self._windows.finish()

    def close(self) -> None:
        """Detaches and frees the programs and maps."""
        self.attachment.close()
        self._windows = None

    def poll(self) -> Sequence[Single]:
        """To be called several times a second; no handshake is handed over."""
        self.attachment.tend()
        if self._windows:
            with ending_if_refused(self._windows, self.attachment):
                self._windows.tick()
        return ()

    @property
    def due_s(self) -> float:
        """The time of the next poll, as for any source."""
        return self._windows.due_s if self._windows else math.inf

    @property
    def rests(self) -> bool:
        """Whether there is a budget, and nobody worked when it was last looked."""
        return bool(self._windows and self._windows.rests)

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows of processes that had ended before the last `read`; later snapshots are without their counts."""
        for raw_key, row in self._rows.last:
            if abi.SeriesKey.from_buffer_copy(raw_key).tgid in pids and self._series.delete(raw_key) and self._windows and row:
                self._forgotten.setdefault(row.called, []).append(row.exponential)
        self._forgotten = {called: [ExponentialHistogram.added(parts)] for called, parts in self._forgotten.items()}
        for pid in pids:
            self._processes.delete(pid.to_bytes(4, "little"))
        self.attachment.forget(pids)

    def _totals(self) -> dict[Function, ExponentialHistogram]:
        """All calls that were counted so far, or by the reading that is being made, by function and outcome."""
        parts = {called: list(forgotten) for called, forgotten in self._forgotten.items()}
        for _, row in self._rows.last if self._reads else self._rows.read(self._views()):
            if row:
                parts.setdefault(row.called, []).append(row.exponential)
        return self._sums.of(parts)

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        if per_interval:
            self._extremes = collect.Extremes(self._request.extremes)
        interval = self.attachment.next_interval()
        in_flight = self.attachment.running_calls()
        return Snapshot(
            host=os.uname().nodename,
            kernel=os.uname().release,
            engine=self._engine,
            started=self.attachment.span.started,
            duration_s=self.attachment.span.duration_s,
            targets=self._targets(),
            series=collect.in_order(self._read_series(interval), self._operations),
            missing=tuple(missing for image in self.attachment.images for missing in not_traced(image.plan)),
            losses=self._losses(),
            in_flight=in_flight,
            notes=(*self.attachment.notes, *self._of_windows(), *unreadable(self.attachment.images)),
            cost=self.attachment.cost(),
            sampling=self._sampling(anew=per_interval),
        )

    def _of_windows(self) -> tuple[str, ...]:
        return (GAVE_UP,) if self._windows and self._windows.gave_up else ()

    def _sampling(self, *, anew: bool) -> tuple[Sampling, ...]:
        self._reads = True
        try:
            return self._windows.sampling(anew=anew) if self._windows else ()
        finally:
            self._reads = False

    def _read_series(self, interval: int) -> Iterator[Series]:
        for _, row in self._rows.read(self._views()):
            if row:
                yield row.series(self._extremes.take(row.key, row.marks, interval))

    def _views(self) -> Iterator[tuple[bytes, memoryview]]:
        """The rows that count anything; those of "other" only once a call counts there."""
        yield from self._series.views()
        if self.attachment.counters.in_other:
            yield from self._other.views()

    def _losses(self) -> Losses:
        return replace(self.attachment.losses(), folded_processes=sum(1 for _ in self._folded.items()))

    def _targets(self) -> tuple[Target, ...]:
        """The processes that were asked for, and with everyone those that made calls."""
        named = dict(self.attachment.targets)
        for raw_pid, raw_process in self._processes.items():
            pid = int.from_bytes(raw_pid, "little")
            comm = abi.Process.from_buffer_copy(raw_process).comm.decode(errors="replace")
            named.setdefault(pid, Target(pid, self.name_of(pid, comm), ()))
        return tuple(named[pid] for pid in sorted(named))

    def name_of(self, pid: int, kept: str) -> str:
        """The name of a process that wasn't asked for; `kept` is what the kernel side has kept of it."""
        del pid
        return kept
