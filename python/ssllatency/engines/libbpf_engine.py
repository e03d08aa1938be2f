# SPDX-License-Identifier: Apache-2.0
"""The default engine: the CO-RE object through libbpf, attached in the newest way that the kernel has.

Kernel memory, all of it made at the start: one row of 4.5 KiB for each function, outcome and process that occurs, at most
ROWS of them and three for each operation under "other"; 16 Ki running calls of 24 bytes, and as many in overflow. About 11 MiB.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Protocol

from ssllatency import abi
from ssllatency.engines import collect, kernel
from ssllatency.engines.base import AttachError, Request, Role
from ssllatency.engines.libbpf import Map
from ssllatency.engines.objects import open_object
from ssllatency.engines.running import Running
from ssllatency.engines.sites import ImageSites, Sites, library_record, operations_of, sites_of
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot, Target
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY

ROWS = 2048
LINK_EACH_PROCESS = 8  # up to so many processes get links of their own; past it one link filters in the program
_UNPROBEABLE = 524  # ENOTSUPP, which errno doesn't name
_PROGRAMS = ("at_entry", "at_exit", "at_return", "at_both", "at_free")
_FLOOR = dict.fromkeys(_PROGRAMS, "at_nothing") | {"at_both": "at_nothing_twice"}
_ROLES = {Role.ANY: abi.Role.ANY, Role.SERVER: abi.Role.SERVER, Role.CLIENT: abi.Role.CLIENT}


class Closable(Protocol):
    """A link."""

    def close(self) -> None:
        """Detaches."""


def choose_method(wanted: str) -> kernel.Method:
    """The way of attaching that is asked for, or the newest one that the kernel has."""
    return kernel.best_method() if wanted == "auto" else kernel.Method(wanted)


def links_each_process(request: Request) -> bool:
    """Whether every process gets links of its own, rather than all of them one with a filter in the program.

    With links of their own, only the traced processes pay, but every hit walks the links of all: past LINK_EACH_PROCESS of
    them that costs more than the filter (bench/processes.py). Two files with one build-id may be one file to the kernel (an
    image layer under two containers): a link for everyone on each of them would count a call twice, so they never share.
    """
    identities = [image.plan.build_id for image in request.images if image.plan.build_id]
    if len(identities) != len(set(identities)):
        return True
    if request.links != "auto":
        return request.links == "process"
    pids = {pid for image in request.images for pid in image.pids}
    return not request.everyone and len(pids) <= LINK_EACH_PROCESS


class LibbpfEngine:
    """Attaches plans by libbpf and the bpf system call."""

    name = "libbpf"

    def attach(self, request: Request) -> LibbpfSession:
        """Attaches all probes of the request or none."""
        session = LibbpfSession(request, choose_method(request.method))
        try:
            session.start()
        except BaseException:
            session.close()
            raise
        return session


class LibbpfSession:
    """The probes of one request."""

    def __init__(self, request: Request, method: kernel.Method) -> None:
        self._request, self._method = request, method
        self._operations = operations_of(request.images)
        self._pids = sorted({pid for image in request.images for pid in image.pids})
        self._link_each_process = links_each_process(request)
        self._filtered = not request.everyone and not (self._link_each_process and self._kernel_filters())
        self._extremes = collect.Extremes()
        self._entry_links: list[Closable] = []
        self._exit_links: list[Closable] = []
        self._began = self._ended = 0.0
        self._started = ""
        self._object = open_object("ssllatency")

    def _kernel_filters(self) -> bool:
        """Whether a link's pid means all threads of that process; where it doesn't, the programs filter as well."""
        return self._method is kernel.Method.PERF or kernel.filters_whole_processes()

    def start(self) -> None:
        """Loads the object, fills its maps and attaches: ways out first, so that no call is seen to begin and not to end."""
        self._configure()
        self._object.load()
        self._fill_maps()
        images = [sites_of(image, self._operations, index) for index, image in enumerate(self._request.images)]
        for sites in images:
            self._attach_all(self._exit_links, sites, "at_free", sites.frees)
            self._attach_all(self._exit_links, sites, "at_exit", sites.exits)
            if self._method is not kernel.Method.SESSION:
                self._attach_all(self._exit_links, sites, "at_return", sites.returns, at_return=True)
        for sites in images:
            if self._method is kernel.Method.SESSION:
                self._attach_all(self._entry_links, sites, "at_both", sites.returns, session=True)
                self._attach_all(self._entry_links, sites, "at_entry", sites.entries)
            else:
                self._attach_all(self._entry_links, sites, "at_entry", sites.entries + sites.returns)
        if not self._entry_links:
            raise AttachError("none of the processes to trace is left: they ended while the probes were attached.")
        self._began, self._started = time.monotonic(), datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")

    def _configure(self) -> None:
        linear = self._request.linear
        if linear.buckets > abi.Geometry.LINEAR_BUCKETS:
            raise SsllatencyError(
                f"the linear histogram has at most {abi.Geometry.LINEAR_BUCKETS.value} buckets: take wider steps.", 2
            )
        config = self._object.section(".rodata.config", abi.Config)
        config.linear_minimum_ns, config.linear_step_ns = linear.minimum * 1000, linear.step * 1000
        config.linear_buckets = linear.buckets
        config.filter_tgid, config.role = int(self._filtered), _ROLES[self._request.role]
        self._object.resize_map("series", ROWS + len(abi.Outcome) * len(self._operations))
        self._object.resize_map("processes", self._request.maximum_processes)
        self._object.resize_map("targets", max(1, len(self._pids)))
        self._choose_programs()

    def _choose_programs(self) -> None:
        """Loads the programs that are needed. What a program may be attached with is settled when it is loaded."""
        multi = 0 if self._method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
        used = {self._program(name) for name in _PROGRAMS}
        for name in {*_PROGRAMS, *_FLOOR.values()}:
            is_session = name in ("at_both", _FLOOR["at_both"])
            load = name in used and (not is_session or self._method is kernel.Method.SESSION)
            self._object.choose_program(name, load=load, attach_type=kernel.TRACE_UPROBE_SESSION if is_session else multi)

    def _program(self, name: str) -> str:
        return _FLOOR[name] if self._request.floor else name

    def _fill_maps(self) -> None:
        self._series = self._object.map("series", ctypes.sizeof(abi.SeriesKey), ctypes.sizeof(abi.Series))
        self._processes = self._object.map("processes", 4, ctypes.sizeof(abi.Process))
        self._folded = self._object.map("folded", 4, 1)
        self._running = Running(self._object)
        self._account = self._object.live_section(".data.account", abi.Account)
        self._account.interval = 1
        libraries: Map = self._object.map("libraries", 4, ctypes.sizeof(abi.Library))
        for index, image in enumerate(self._request.images):
            frees = any(BY_NAME[planned.operation].only_entry for planned in image.plan.operations)
            libraries.update(ctypes.c_uint32(index), library_record(image.plan.offsets, remember=frees))
        for number in range(len(self._operations)):
            for outcome in abi.Outcome:
                self._series.update(abi.SeriesKey(0, number, outcome), abi.Series())
        wanted: Map = self._object.map("targets", 4, 1)
        for pid in self._pids if self._filtered else ():
            wanted.update(ctypes.c_uint32(pid), ctypes.c_uint8(1))

    def _attach_all(
        self,
        links: list[Closable],
        image: ImageSites,
        program: str,
        sites: Sites,
        *,
        at_return: bool = False,
        session: bool = False,
    ) -> None:
        """The sites of one role in one image: a link for each process, or one for all."""
        if not sites:
            return
        for pid in image.image.pids if self._link_each_process else (0,):
            try:
                links.extend(self._attach(image, self._program(program), sites, pid, at_return=at_return, session=session))
            except ProcessLookupError:
                continue  # it ended meanwhile; the others are traced
            except OSError as error:
                raise _refusal(error, image) from None

    def _attach(
        self, image: ImageSites, program: str, sites: Sites, pid: int, *, at_return: bool, session: bool
    ) -> Sequence[Closable]:
        file = image.image.file
        if self._method is not kernel.Method.PERF:
            descriptor = self._object.program_fd(program)
            return [kernel.create_link(descriptor, file, sites, pid=pid, at_return=at_return, session=session)]
        attach = self._object.attach_perf
        return [attach(program, pid or -1, file, offset, cookie, at_return=at_return) for offset, cookie in sites]

    def detach(self) -> None:
        """Removes the probes, entries first; calls that run on are in flight, not lost."""
        if self._began and not self._ended:
            self._ended = time.monotonic()
        for links in (self._entry_links, self._exit_links):
            _close_all(links)

    def close(self) -> None:
        """Detaches and frees the programs and maps."""
        self.detach()
        self._object.close()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        if per_interval:
            self._extremes = collect.Extremes()
        interval = self._account.interval
        self._account.interval = interval + 1
        in_flight = self._running.count()
        return Snapshot(
            host=os.uname().nodename,
            kernel=os.uname().release,
            engine=LibbpfEngine.name,
            started=self._started,
            duration_s=(self._ended or time.monotonic()) - self._began,
            targets=self._targets(),
            series=tuple(self._read_series(interval)),
            missing=self._missing(),
            losses=self._losses(),
            in_flight=in_flight,
            notes=tuple(self._notes()),
        )

    def _read_series(self, interval: int) -> list[Series]:
        found = []
        for raw_key, raw_row in self._series.items():
            key, row = abi.SeriesKey.from_buffer_copy(raw_key), abi.Series.from_buffer_copy(raw_row)
            extremes = self._extremes.take((key.tgid, key.operation, key.outcome), row, interval)
            made = collect.series(key, row, self._operations, self._request.linear, extremes)
            if made.count:
                found.append(made)
        order = list(Outcome)
        return sorted(found, key=lambda one: (self._operations.index(one.function), order.index(one.outcome), one.pid or 0))

    def _losses(self) -> Losses:
        account = self._account
        return Losses(
            unmatched_entries=account.unmatched_entries + self._running.lost,
            unmatched_exits=account.unmatched_exits,
            map_full=account.map_full,
            folded_processes=sum(1 for _ in self._folded.items()),
        )

    def _targets(self) -> tuple[Target, ...]:
        """The processes that were asked for, and with everyone those that made calls."""
        named = {target.pid: target for target in self._request.targets}
        for raw_pid, raw_process in self._processes.items():
            pid = int.from_bytes(raw_pid, "little")
            comm = abi.Process.from_buffer_copy(raw_process).comm.decode(errors="replace")
            named.setdefault(pid, Target(pid, comm, ()))
        return tuple(named[pid] for pid in sorted(named))

    def _missing(self) -> tuple[Missing, ...]:
        """What the files hold and isn't traced. What this version of a library doesn't have isn't missing."""
        plans = [image.plan for image in self._request.images]
        return tuple(
            Missing(one.operation, plan.path, one.reason)
            for plan in plans
            for one in plan.missing
            if one.reason != NOT_IN_LIBRARY
        )

    def _notes(self) -> list[str]:
        plans = [image.plan for image in self._request.images]
        blind = [
            plan.path
            for plan in plans
            if plan.offsets.rwstate is None and any(_is_ssl(one.operation) for one in plan.operations)
        ]
        return [
            f"SSL_want of {path} can't be read, so retries and failures of its SSL calls can't be told apart: they are retries "
            'of reason "unknown".'
            for path in blind
        ]


def _close_all(links: list[Closable]) -> None:
    """Closes and forgets the links, side by side: the kernel takes some 50 ms over each, nearly all of it waiting."""
    if links:
        with ThreadPoolExecutor(min(len(links), 64)) as pool:
            list(pool.map(lambda link: link.close(), links))
        links.clear()


def _is_ssl(operation: str) -> bool:
    return operation.startswith("SSL_")


def _refusal(error: OSError, image: ImageSites) -> AttachError:
    """The kernel's refusal of a link as a sentence."""
    path = image.image.plan.path
    if error.errno == _UNPROBEABLE:
        return AttachError(f"the kernel can't probe an instruction that was chosen in {path}: please report its build-id.")
    if error.errno in (errno.EPERM, errno.EACCES):
        return AttachError("the kernel doesn't let this user attach probes: run as root (sudo).")
    return AttachError(f"the kernel refused to probe {path}: {os.strerror(error.errno or 0)}.")
