# SPDX-License-Identifier: Apache-2.0
"""From sites to links: how probes are attached, for whom, and what the kernel's refusal means."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any

from ssllatency.data_class import dataclass
from ssllatency.engines.attach.images import may_be_one_file
from ssllatency.engines.attach.sites import Sites
from ssllatency.engines.base import AttachError, Linking, Request, TracedImage
from ssllatency.engines.bpf import kernel, perf
from ssllatency.engines.bpf.loadable import Closable, Loadable
from ssllatency.engines.resources import take_all_files
from ssllatency.engines.side_by_side import side_by_side
from ssllatency.errors import SsllatencyError

LINK_EACH_PROCESS = 8  # up to so many processes get links of their own; past it one link filters in the program
_UNPROBEABLE = 524  # ENOTSUPP, which errno doesn't name


def decide(request: Request) -> Linking:
    """Return how the probes of a request are linked. AttachError where this kernel has no such way."""
    method = _method(request)
    return Linking(method, links_each_process(request, method))


def method_of_programs(request: Request, method: kernel.Method, *, sessions: bool) -> kernel.Method:
    """The method for an object's programs, which without `sessions` can't be one. AttachError where one was asked for."""
    if sessions or method is not kernel.Method.SESSION:
        return method
    if request.method != "auto":
        raise AttachError("uprobe sessions are the libbpf engine's only: leave out --attach, or take multi or perf.")
    return kernel.Method.MULTI


def _method(request: Request) -> kernel.Method:
    """The way of attaching that is asked for, or the newest that serves."""
    auto = request.method == "auto"
    method = kernel.best_method() if auto else kernel.Method(request.method)
    if request.budget is not None and method is kernel.Method.SESSION and auto:
        method = kernel.Method.MULTI  # a session whose probes are removed would lose its calls that run
    if not auto and kernel.lacks(method):
        raise AttachError(
            f"this kernel can't attach by {method}, which came with Linux {kernel.SINCE[method]}: leave out --attach, "
            f"or take {kernel.best_method()}."
        )
    if not needs_own_links(request) or _covers_all_threads(method):
        return method
    if auto:
        return kernel.Method.PERF
    raise AttachError(
        f"{method} links of each process of its own would see only the first thread of a process on this kernel, "
        "which lacks a fix of Linux 6.10: leave out --attach, or take perf."
    )


def needs_own_links(request: Request) -> bool:
    """Whether no link can be shared: files that may be one to the kernel, processes that must get no probe, or asked for."""
    return may_be_one_file(request.images) or request.spares or request.links == "process"


def _covers_all_threads(method: kernel.Method) -> bool:
    """Whether a link of one process sees all its threads. A perf event's does: the kernel compares address spaces."""
    return method is kernel.Method.PERF or kernel.filters_whole_processes()


def may_link_each(request: Request, method: kernel.Method) -> bool:
    """Whether processes may get links of their own to a file where others share theirs."""
    return request.links != "shared" and _covers_all_threads(method)


def links_each_process(request: Request, method: kernel.Method) -> bool:
    """Whether every process gets links of its own, rather than all of them one with a filter in the program.

    With links of their own, only the traced processes pay, but every hit walks the links of all: past LINK_EACH_PROCESS of
    them that costs more than the filter (bench/processes.py). A link can't be had before its process is there, so a child's
    first calls would be missed: processes that are followed share a link, unless they can have no children, and so do those
    that are waited for. Files that may be one inode to the kernel never share one: each process has its own. A perf event holds
    one site of one process, and the kernel takes 0.1 s to end each: only one process gets its own. Where the kernel drops the
    hits of other threads than a link's, no filter in the program brings them back: they share.
    """
    if needs_own_links(request):
        return True
    others_may_come = request.follow is not None and not request.childless
    if request.links == "shared" or request.everyone or request.wait or others_may_come:
        return False
    pids = {pid for image in request.images for pid in image.pids}
    most = 1 if method is kernel.Method.PERF else LINK_EACH_PROCESS
    return len(pids) <= most and _covers_all_threads(method)


@dataclass(frozen=True)
class Linker:
    """Attaches programs of a loaded object, for each process or for all."""

    loaded: Loadable
    method: kernel.Method
    each_process: bool
    _of_process: dict[int, list[Closable]] = field(default_factory=lambda: defaultdict(list))
    _of_file: dict[str, list[Closable]] = field(default_factory=lambda: defaultdict(list))
    _of_program: dict[str, list[Closable]] = field(default_factory=lambda: defaultdict(list))

    def attach(
        self, image: TracedImage, program: str, sites: Sites, *, at_return: bool = False, session: bool = False
    ) -> list[Closable]:
        """One program at the sites of one image: a link for each process, or one for all. AttachError where refused."""
        links: list[Closable] = []
        each = self.each_process or image.own_links
        for pid in (image.pids if each else (0,)) if sites else ():
            try:
                made = self._link(image.file, program, sites, pid, at_return=at_return, session=session)
            except ProcessLookupError:
                continue  # it ended meanwhile; the others are traced
            except SsllatencyError as error:  # a program that is loaded now
                close_all(links)
                raise AttachError(str(error)) from None
            except OSError as error:
                close_all(links)
                raise _refusal(error, image, self.method) from None
            links.extend(made)
            self._of_file[image.file].extend(made)
            self._of_program[program].extend(made)
            if pid:
                self._of_process[pid].extend(made)
        return links

    def take_from(self, pids: Iterable[int]) -> list[Closable]:
        """The links that these processes had of their own, for the caller to close; each is given once."""
        links = [link for pid in pids for link in self._of_process.pop(pid, [])]
        return self._forgotten(links, self._of_file, self._of_program)

    def take_from_file(self, file: str) -> list[Closable]:
        """The links to that file, for the caller to close; each is given once."""
        return self._forgotten(self._of_file.pop(file, []), self._of_process, self._of_program)

    def take_of_programs(self, programs: Iterable[str]) -> list[Closable]:
        """The links of these programs, for the caller to close; each is given once."""
        links = [link for program in programs for link in self._of_program.pop(program, [])]
        return self._forgotten(links, self._of_process, self._of_file)

    def forget(self) -> None:
        """Takes it that all links are closed."""
        self._of_process.clear()
        self._of_file.clear()
        self._of_program.clear()

    @staticmethod
    def _forgotten(links: list[Closable], *elsewhere: Mapping[Any, list[Closable]]) -> list[Closable]:
        """The links, which are also listed elsewhere, without those entries."""
        gone = set(map(id, links))
        for listed in chain.from_iterable(each.values() for each in elsewhere) if gone else ():
            listed[:] = [link for link in listed if id(link) not in gone]
        return links

    def _link(self, file: str, program: str, sites: Sites, pid: int, *, at_return: bool, session: bool) -> Sequence[Closable]:
        if self.method is not kernel.Method.PERF:
            descriptor = self.loaded.program_fd(program)
            return [kernel.create_link(descriptor, file, sites, pid=pid, at_return=at_return, session=session)]
        return self._perf_links(file, program, sites, pid, at_return=at_return)

    def _perf_links(self, file: str, program: str, sites: Sites, pid: int, *, at_return: bool) -> list[Closable]:
        """A perf event for each site: all or none."""
        take_all_files()
        descriptor = self.loaded.program_fd(program)
        links: list[Closable] = []
        try:
            for offset, cookie in sites:
                links.append(perf.attach(descriptor, file, offset, cookie, pid=pid or -1, at_return=at_return))
        except BaseException:
            close_all(links)
            raise
        return links


def close_all(links: list[Closable]) -> None:
    """Closes and forgets the links, side by side: the kernel takes some 50 ms over each, nearly all of it waiting."""
    side_by_side([link.close for link in links])
    links.clear()


def _refusal(error: OSError, image: TracedImage, method: kernel.Method) -> AttachError:
    """The kernel's refusal of a link as a sentence."""
    path = image.plan.path
    if error.errno == _UNPROBEABLE:
        return AttachError(f"the kernel can't probe an instruction that was chosen in {path}: please report its build-id.")
    if error.errno in (errno.EPERM, errno.EACCES):
        way = ", as perf events, for which it asks for CAP_SYS_ADMIN" if method is kernel.Method.PERF else ""
        level = perf.paranoid_level() if way else 0
        setting = f"kernel.perf_event_paranoid is {level}, at which some kernels ask so for all perf events"
        why = f" ({setting})" if level > 2 else ""
        return AttachError(f"the kernel doesn't let this user attach probes{way}{why}: run as root (sudo).")
    return AttachError(f"the kernel refused to probe {path}: {os.strerror(error.errno or 0)}.")
