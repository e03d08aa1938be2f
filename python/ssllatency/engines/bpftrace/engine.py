# SPDX-License-Identifier: Apache-2.0
"""The engine for a host whose libbpf can't be used but that has bpftrace (tested with 0.17 and 0.23): the plan as a script.

It counts what the other engines count: the same sites, outcomes, reasons and buckets. It costs more: a call updates half a
dozen maps, and every process that maps the files hits the breakpoints; a condition in the script picks the traced processes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.engines.attach.code_check import check_code
from ssllatency.engines.attach.images import may_be_one_file, unreadable
from ssllatency.engines.attach.sites import operations_of
from ssllatency.engines.base import AttachError, Request, TracedImage
from ssllatency.engines.bpf.running import exists
from ssllatency.engines.bpftrace import numbers
from ssllatency.engines.bpftrace import script as bpftrace_script
from ssllatency.engines.bpftrace.process import BEGIN, EXTRA, OWN_PROBES, Bpftrace
from ssllatency.engines.bpftrace.symbols import symbol_file
from ssllatency.engines.clock import Span
from ssllatency.engines.read import collect
from ssllatency.engines.source import Ability
from ssllatency.model.handshakes import Single
from ssllatency.model.snapshot import Losses, Series, Snapshot, Target

_KEYS_EACH_PROCESS, _FEWEST_KEYS, _MOST_KEYS = 4096, 16384, 131072
_NOTE = "Counted by bpftrace, whose counters aren't atomic: a kernel that preempts (CONFIG_PREEMPT) may lose single calls."
_LATER = "Processes that started after the trace began aren't counted: the bpftrace engine doesn't follow."


class BpftraceEngine:
    """Attaches plans by running bpftrace."""

    name = "bpftrace"
    abilities = Ability.FUNCTIONS

    def attach(self, request: Request) -> BpftraceSession:
        """Attaches all probes of the request or none."""
        if request.wait and not request.everyone:
            raise AttachError("bpftrace follows no process that starts later, so it can't --wait: use another engine.")
        session = BpftraceSession(request)
        try:
            session.attach()
        except BaseException:
            session.close()
            raise
        return session


class BpftraceSession:
    """The probes of one request."""

    _bpftrace: Bpftrace
    abilities = Ability.FUNCTIONS
    due_s = math.inf  # it knows no windows

    def __init__(self, request: Request) -> None:
        self._request = replace(request, images=tuple(map(_reachable, map(bpftrace_script.scripted, request.images))))
        self._check_code()
        if request.spares:
            raise AttachError(
                "bpftrace sets its probes in all processes that map a file, also where code was changed: use another engine."
            )
        self._operations = operations_of(self._request.images)
        self._span = Span()
        self._admitted: list[int] = []
        self._folded: set[int] = set()
        self._earlier: dict[collect.Key, tuple[int | None, int | None]] = {}
        self._probes = sum(len(bpftrace_script.sites(image)) for image in self._request.images)
        if not self._probes:
            raise AttachError("none of the functions can be traced by bpftrace: use another engine.")
        self._opened = ExitStack()

    def attach(self) -> None:
        """Starts bpftrace, and waits until the probes are attached. AttachError where a file was written to since they were
        planned.

        bpftrace takes seconds from its start to its last probe, so the files are checked before and after.
        """
        symbols = {
            image.file: symbol_file(bpftrace_script.sites(image), image.plan.build_id, image.plan.machine)
            for image in self._request.images
        }
        probes, keys = self._probes + OWN_PROBES, _keys(self._request)
        self._bpftrace = Bpftrace(script(self._request), symbols, probes=probes, keys=keys)
        self._opened.callback(self._bpftrace.close)
        self._bpftrace.wait_attached()
        self._check_code()
        self._span.begin()

    def _check_code(self) -> None:
        for image in self._request.images:
            check_code(image, (probe.offset for planned in image.plan.operations for probe in planned.probes))

    def poll(self) -> Sequence[Single]:
        """Nothing is ever due."""
        return ()

    def detach(self) -> None:
        """Removes the probes; what was counted can still be read. May be called twice."""
        if self._span.end():
            self._bpftrace.end()

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""
        self._opened.close()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        maps = self._bpftrace.maps()
        in_flight, gone = _running(maps)
        series = collect.in_order(self._series(maps, per_interval=per_interval), self._operations)
        return Snapshot(
            host=os.uname().nodename,
            kernel=os.uname().release,
            engine=BpftraceEngine.name,
            started=self._span.started,
            duration_s=self._span.duration_s,
            targets=self._targets(maps),
            series=series,
            missing=tuple(missing for image in self._request.images for missing in bpftrace_script.left_out(image.plan)),
            losses=Losses(
                unmatched_entries=numbers.lost(maps, 0) + gone,
                unmatched_exits=numbers.lost(maps, 1),
                map_full=numbers.lost(maps, 2) + numbers.without_room(maps, _keys(self._request)),
                folded_processes=len(self._folded),
            ),
            in_flight=in_flight,
            notes=(
                *unreadable(self._request.images),
                _NOTE,
                *_overwritten(numbers.overwritten(maps, _keys(self._request))),
                *([_LATER] if self._request.follow and not self._request.everyone else []),
            ),
        )

    def _series(self, maps: numbers.Maps, *, per_interval: bool) -> Iterator[Series]:
        for key, row in numbers.rows(maps, self._folding(maps)).items():
            extremes = row.least, row.most
            if per_interval:
                row.least, row.most = _since(extremes, self._earlier.get(key))
            self._earlier[key] = extremes
            yield row.series(key, self._operations, self._request.linear)

    def _folding(self, maps: numbers.Maps) -> dict[int, int]:
        """The processes past the maximum, which count under 0, "other"; those admitted once stay so."""
        seen = sorted({pid for (pid, _), _ in numbers.keyed(maps, "@total")} - set(self._admitted))
        room = max(0, self._request.maximum_processes - len(self._admitted))
        new = [pid for pid in seen if pid not in self._folded]
        self._admitted += new[:room]
        self._folded.update(new[room:])
        return dict.fromkeys(self._folded, 0)

    def _targets(self, maps: numbers.Maps) -> tuple[Target, ...]:
        """The processes that were asked for, and with everyone those that made calls."""
        named = {target.pid: target for target in self._request.targets}
        for (pid,), name in numbers.keyed(maps, "@name"):
            if pid not in self._folded:
                named.setdefault(pid, Target(pid, name, ()))
        return tuple(named[pid] for pid in sorted(named))


def script(request: Request) -> str:
    """The text that bpftrace runs for a request."""
    everyone = request.everyone and not may_be_one_file(request.images)
    recorder = numbers.Numbers(request.linear, names=request.everyone)
    return bpftrace_script.render(request.images, recorder, role=request.role, everyone=everyone, begin=BEGIN, extra=EXTRA)


def _reachable(image: TracedImage) -> TracedImage:
    """The image under a path that means the same to another process."""
    own = "/proc/self/"
    file = image.file
    return replace(image, file=f"/proc/{os.getpid()}/{file.removeprefix(own)}" if file.startswith(own) else file)


def _overwritten(calls: int) -> list[str]:
    """The sentence about calls that are known to be missing for want of atomic counters, if there are any."""
    return [f"At least {calls} {'call is' if calls == 1 else 'calls are'} missing for that reason."] if calls else []


def _keys(request: Request) -> int:
    pids = {pid for image in request.images for pid in image.pids}
    return min(_MOST_KEYS, max(_FEWEST_KEYS, _KEYS_EACH_PROCESS * len(pids)))


def _running(maps: numbers.Maps) -> tuple[int, int]:
    """Return how many calls run, and how many never end as their process is gone."""
    pids = [pid for (pid, _, _), _ in numbers.keyed(maps, "@running")]
    alive = {pid for pid in set(pids) if exists(pid)}
    running = sum(pid in alive for pid in pids)
    return running, len(pids) - running


def _since(now: tuple[int | None, int | None], earlier: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    """The extremes of the time since an earlier read: known where they went past those of before."""
    if earlier is None:
        return now
    return now[0] if now[0] != earlier[0] else None, now[1] if now[1] != earlier[1] else None
