# SPDX-License-Identifier: Apache-2.0
"""Other processes that pay for shared links: who they are, what they pay, and how to spare them.

A link that all traced processes share sets its breakpoints in every process that maps the file; a filter in the program then
picks the traced ones. The others take the same traps. Who they are is read from the maps of all processes, a part of them at a
time, as a machine may have thousands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from ssllatency.engines.base import TracedImage
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import SsllatencyError
from ssllatency.own_processes import own_pids
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.costs import HitCosts, cost_ns
from ssllatency.targets import Identity, Numbers, Process, mapped_files, process_of
from ssllatency.targets.processes import all_pids
from ssllatency.units import counted, duration, printable

_FIRST_LOOK_S, _MOST_LOOK_S = 0.1, 0.02  # how long a look takes: all of most machines at the first, little of each later one
_LINE, _MOST_NAMES = 94, 4  # characters that leave a note of a report, "Note: " before it, on one line
_MOST_HEARD = 64  # processes that wait to be asked once more whether they are targets


class OtherUsers:
    """Looks who else maps the traced files, a part of all processes at a time; then takes notices of those that come later.

    `files` are the traced files, of which more may come, `hints` their numbers in the kernel's notices. `is_target` says
    whether a process is traced, or was. `has_links_option`: as for who_pays().
    """

    def __init__(
        self,
        files: Collection[Identity],
        hints: Collection[Numbers],
        is_target: Callable[[int], bool],
        *,
        has_links_option: bool = True,
    ) -> None:
        self._has_links_option = has_links_option
        self._files, self._hints, self._is_target = files, hints, is_target
        self._left: list[int] | None = None  # processes that weren't looked at yet; None before the first look
        self._found: dict[int, Process] = {}
        self._heard: dict[int, Process] = {}
        self._files_known = 0

    def look(self) -> list[Process]:
        """Goes on with the search. The other processes, once all have been looked at and there are any; else nobody yet."""
        most_s = _FIRST_LOOK_S if self._left is None else _MOST_LOOK_S
        if self._left is None or len(self._files) > self._files_known:
            self._left, self._files_known = _pids(), len(self._files)
        self._settle()
        ends = time.monotonic() + most_s
        while self._left and time.monotonic() < ends:
            self._take(self._left.pop())
        return [] if self._left else [process for pid, process in self._found.items() if not self._is_target(pid)]

    def sentence(self, others: Sequence[Process], images: Iterable[TracedImage], costs: HitCosts | None) -> str:
        """The sentences about those that were found, as who_pays() has them."""
        return who_pays(others, images, costs, has_links_option=self._has_links_option)

    def _take(self, pid: int) -> None:
        if not self._is_target(pid) and maps_any(pid, self._files):
            self._add(pid, process_of(pid))

    def _add(self, pid: int, process: Process | None) -> None:
        """This command, and what it has started, aren't others."""
        if process and own_pids().isdisjoint((pid, process.ppid)):
            self._found[pid] = process

    def hear(self, mappings: Iterable[MappingNotice]) -> None:
        """Takes what processes have mapped that weren't targets then. Whether they are is asked once more at the next look."""
        for mapping in mappings:
            if mapping.numbers in self._hints and len(self._heard) < _MOST_HEARD and mapping.pid not in self._heard:
                self._heard[mapping.pid] = process_of(mapping.pid) or Process(mapping.pid, 0, "a process that has ended", 0)

    def _settle(self) -> None:
        """Takes those who were heard of, are no targets by now, and map one of the files, as far as that can still be seen."""
        heard, self._heard = self._heard, {}
        for pid, process in heard.items():
            if not self._is_target(pid) and (maps_any(pid, self._files) or process_of(pid) is None):
                self._add(pid, process)


def maps_any(pid: int, files: Collection[Identity]) -> bool:
    """Whether the process maps one of the files as code; false also where it is gone or may not be inspected."""
    try:
        return any(file.identity in files for file in mapped_files(pid))
    except SsllatencyError:
        return False


def who_pays(
    others: Sequence[Process], images: Iterable[TracedImage], costs: HitCosts | None, *, has_links_option: bool = True
) -> str:
    """Say in one line which other processes pay for shared links, how much a call, and how to spare them, where the command has
    an option for that: of their names as many as the line has room for. `costs` are this machine's; None where they aren't
    known."""
    beginning = f"The probes cost {counted(len(others), 'other process')} {_price(images, costs)}"
    advice = "; --links process spares them" if has_links_option else ""
    sentences = [f"{beginning}: {names}{advice}." for names in _names(others)]
    return next((sentence for sentence in sentences if len(printable(sentence)) <= _LINE), f"{beginning}{advice}.")


def _names(others: Sequence[Process]) -> Iterator[str]:
    """Their names, fewer and fewer."""
    names = list(dict.fromkeys(process.comm for process in others))
    if len(others) == 1:
        yield f"{names[0]} (PID {others[0].pid})"
    for most in range(len(names[:_MOST_NAMES]), 0, -1):
        yield ", ".join([*names[:most], *(["others"] if most < len(names) else [])])


def _price(images: Iterable[TracedImage], costs: HitCosts | None) -> str:
    if costs is None:
        return "two traps a call"
    files = [image.plan for image in images]
    calls = [plan for file in files for plan in file.operations if not BY_NAME[plan.operation].only_entry]
    machines = [machine for file in files if (machine := file.handshake.state_machine)]
    prices = sorted(cost_ns(plan, costs) for plan in (*calls, *machines)) or [2 * costs.emulated]
    return f"{'up to ' if prices[-1] >= 1.5 * prices[0] else ''}{duration(prices[-1])} a call"


def _pids() -> list[int]:
    """All processes, the first last; nobody where they can't be listed."""
    with suppress(SsllatencyError):
        return sorted(all_pids(), reverse=True)
    return []
