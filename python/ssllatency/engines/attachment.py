# SPDX-License-Identifier: Apache-2.0
"""A request put to work by one BPF object: what the sessions of all commands have in common.

An object that includes bpf/calls.bpf.h and bpf/programs.bpf.h has the programs, the configuration, the account and the maps
`targets`, `libraries`, `starts` and `overflow` that this looks for. A session of its own owns an Attachment and adds what only
it has: before `start` it may size maps and set sections of `attachment.object`, after `load` fill and open them.

    attachment = Attachment(request, "snoop")           # opens build/snoop.bpf.o
    attachment.object.resize_map("events", size)
    attachment.load()
    ring = Ring(attachment.object.map_fd("events"), …)
    attachment.attach()                                  # or attach({"at_phase": [sites of each image]})
    …
    attachment.detach(); attachment.close()              # close at any time, also when one of the above has failed
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ssllatency import abi
from ssllatency.engines import kernel
from ssllatency.engines.base import AttachError, Request, Role
from ssllatency.engines.libbpf import BpfObject
from ssllatency.engines.links import Linker, choose_method, close_all, links_each_process
from ssllatency.engines.loadable import Closable, Loadable, LoadedMap
from ssllatency.engines.objects import open_object
from ssllatency.engines.running import Running
from ssllatency.engines.sites import Sites, library_record, operations_of, remembers_sides, sites_of
from ssllatency.model.snapshot import Losses

_ROLES = {Role.ANY: abi.Role.ANY, Role.SERVER: abi.Role.SERVER, Role.CLIENT: abi.Role.CLIENT}


@dataclass(frozen=True)
class Programs:
    """The names of an object's programs by what they are attached to."""

    entry: str = "at_entry"
    exit: str = "at_exit"
    at_return: str = "at_return"
    both: str = "at_both"
    free: str = "at_free"


STANDARD = Programs()


class Attachment:
    """The probes of one request. `operations` are the names by the numbers that the kernel side knows."""

    def __init__(
        self,
        request: Request,
        opened: Loadable | str,
        programs: Programs = STANDARD,
        more: Sequence[str] = (),
        tracepoints: Sequence[str] = (),
    ) -> None:
        """Takes what is opened, or opens the object of that name. `more` are programs beyond `programs` that `attach` will be
        given sites for; `tracepoints` those that `attach_tracepoint` may be called for."""
        self.request, self._programs, self._more, self._tracepoints = request, programs, tuple(more), tuple(tracepoints)
        self.object: Loadable = open_object(opened) if isinstance(opened, str) else opened
        self.method = choose_method(request.method, sessions=self.object.sessions)
        self.operations = operations_of(request.images)
        self._pids = sorted({pid for image in request.images for pid in image.pids})
        self._each_process = links_each_process(request, self.method)
        # A link's pid means all threads of the process; on kernels where it doesn't, the programs filter as well.
        whole = self.method is kernel.Method.PERF or kernel.filters_whole_processes()
        self._filtered = not request.everyone and not (self._each_process and whole)
        self._entry_links: list[Closable] = []
        self._exit_links: list[Closable] = []
        self._began = self._ended = 0.0
        self.started = ""

    @property
    def duration_s(self) -> float:
        """Seconds since the probes were attached, or from then to when they were detached."""
        return (self._ended or time.monotonic()) - self._began

    def load(self) -> None:
        """Loads the object and fills the maps that all objects have."""
        config = self.object.section(".rodata.config", abi.Config)
        config.filter_tgid, config.role = int(self._filtered), _ROLES[self.request.role]
        self.object.resize_map("targets", max(1, len(self._pids)))
        self._choose_programs()
        self.object.load()
        self.account = self.object.live_section(".data.account", abi.Account)
        self.running = Running(self.object) if self.object.has_map("starts") else None
        libraries: LoadedMap = self.object.map("libraries", 4, ctypes.sizeof(abi.Library))
        for index, image in enumerate(self.request.images):
            record = library_record(image.plan.offsets, remember=remembers_sides(image.plan))
            libraries.update(ctypes.c_uint32(index), record)
        wanted: LoadedMap = self.object.map("targets", 4, 1)
        for pid in self._pids if self._filtered else ():
            wanted.update(ctypes.c_uint32(pid), ctypes.c_uint8(1))

    def _choose_programs(self) -> None:
        """Loads the programs that are needed. What a program may be attached with is settled when it is loaded."""
        chosen = self._programs
        multi = 0 if self.method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
        used = {chosen.entry: multi, chosen.exit: multi, chosen.at_return: multi, chosen.free: multi}
        used |= dict.fromkeys(self._more, multi) | dict.fromkeys(self._tracepoints, 0)
        if self.method is kernel.Method.SESSION:
            used[chosen.both] = kernel.TRACE_UPROBE_SESSION
        for name in self.object.program_names():
            self.object.choose_program(name, load=name in used, attach_type=used.get(name, 0))

    def attach(self, more: Mapping[str, Sequence[Sites]] | None = None) -> None:
        """Attaches all or nothing: ways out first, so that no call is seen to begin and not to end.

        `more` gives for other programs the sites of each image, in the order of the request's images.
        """
        linker = Linker(self.object, self.method, self._each_process)
        images = [sites_of(image, self.operations, index) for index, image in enumerate(self.request.images)]
        names, session = self._programs, self.method is kernel.Method.SESSION
        out, into = self._exit_links, self._entry_links
        for sites in images:
            out += linker.attach(sites.image, names.free, sites.frees)
            out += linker.attach(sites.image, names.exit, sites.exits)
            if not session:
                out += linker.attach(sites.image, names.at_return, sites.returns, at_return=True)
        for program, lists in (more or {}).items():
            for sites, added in zip(images, lists, strict=True):
                out += linker.attach(sites.image, program, added)
        for sites in images:
            if session:
                into += linker.attach(sites.image, names.both, sites.returns, session=True)
                into += linker.attach(sites.image, names.entry, sites.entries)
            else:
                into += linker.attach(sites.image, names.entry, sites.entries + sites.returns)
        if not into:
            raise AttachError("none of the processes to trace is left: they ended while the probes were attached.")
        self._began, self.started = time.monotonic(), datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")

    def attach_tracepoint(self, program: str) -> None:
        """Attaches a program of a BpfObject to the raw tracepoint that its section names."""
        assert isinstance(self.object, BpfObject)
        self._exit_links.append(self.object.attach_by_section(program))

    def running_calls(self) -> int:
        """How many calls run now, in processes that are still there."""
        return self.running.count() if self.running else 0

    def losses(self) -> Losses:
        """What the programs missed so far. Read `running_calls()` first: it finds the calls of processes that are gone."""
        return Losses(
            unmatched_entries=self.account.unmatched_entries + (self.running.lost if self.running else 0),
            unmatched_exits=self.account.unmatched_exits,
            map_full=self.account.map_full,
            events_dropped=self.account.events_dropped,
        )

    def detach(self) -> None:
        """Removes the probes, entries first; calls that run on are in flight, not lost. May be called twice."""
        if self._began and not self._ended:
            self._ended = time.monotonic()
        for links in (self._entry_links, self._exit_links):
            close_all(links)

    def close(self) -> None:
        """Detaches and frees the programs and maps; may be called twice."""
        self.detach()
        self.object.close()
