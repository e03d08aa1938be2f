# SPDX-License-Identifier: Apache-2.0
"""The set of traced processes, which the BPF object follow keeps up to date: reads the set and the object's notices."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from typing import NamedTuple

from ssllatency import abi
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.executed import NOT_KNOWN, Executed
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import open_object
from ssllatency.engines.bpf.ring import Ring
from ssllatency.engines.bpf.running import exists
from ssllatency.engines.bpf.words import Table, bits_of, filled_words
from ssllatency.engines.follow.mappings import MappingNotice, Mappings
from ssllatency.engines.rules import Rules
from ssllatency.errors import SsllatencyError

_RING_BYTES = 1 << 16
_BPF_PROG_TEST_RUN = 10
_MOST_LOOKS = 8
_WORD_BITS = 64
_WORDS_OF_TARGETS = ctypes.sizeof(abi.Targets) // 8  # for each _WORD_BITS of them
_PROGRAMS = ("at_fork", "at_exec", "at_exit")  # those that keep the set


def _has(word: abi.Targets, pid: int) -> bool:
    return bool((word.kin | word.members) >> (pid & 63) & 1)


class Arrival(NamedTuple):
    """A process became a target: the PID of its parent where it did so as a child of one, else 0; when by CLOCK_MONOTONIC."""

    parent: int
    at_ns: int


class TargetBits(ctypes.Structure):
    """The set's memory."""

    _fields_ = (("words", abi.Targets * abi.Target.WORDS),)


class EndedBits(ctypes.Structure):
    """The memory of those that have left the set by ending, until their PIDs are used again."""

    _fields_ = (("words", ctypes.c_uint64 * abi.Target.WORDS),)

    def has(self, pid: int) -> bool:
        """Whether the last process of that PID was a target."""
        return bool(self.words[pid >> 6] >> (pid & 63) & 1)


def pids_of(bits: Table) -> list[int]:
    """The processes of a set, ascending."""
    words = filled_words(bits)
    return sorted({number // _WORDS_OF_TARGETS * _WORD_BITS + bit for number, word in words for bit in bits_of(word)})


class Following:
    """The object follow. Its programs run from `attach` to `close`; the map `targets` is shared with those that filter."""

    def __init__(self, rules: Rules, *, everyone: bool = False) -> None:
        self._rules, self._everyone = rules, everyone
        self._admitted: set[int] = set()
        self._stack = ExitStack()
        self._mappings: Mappings | None = None
        self._cgroup: tuple[int, int] | None = None  # the folder that the programs compare with
        self._joined: dict[int, Arrival] = {}
        self._bursts = 0
        self.by_others: list[MappingNotice] = []  # what others than targets had mapped as code when `mapped` was called last

    def load_ahead(self) -> None:
        """Has a thread load what `load` waits for then."""
        self._open().load_ahead()

    def load(self) -> None:
        """Creates the set, empty. SsllatencyError where the kernel refuses."""
        self._object: BpfObject = self._open()
        self._stack.callback(self._object.close)
        self._object.load()
        self._bits = self._object.live_section("targets", TargetBits)
        self._ended = self._object.live_section("ended", EndedBits)
        self.counters = self._object.live_section(".data.follow_counters", abi.FollowCounters)
        self._wishes = self._object.live_section(".data.follow_wishes", abi.FollowWishes)
        self._ring = self._stack.enter_context(Ring(self._object.map_fd("notices"), _RING_BYTES, ctypes.sizeof(abi.Notice)))
        self._name_cgroup()

    def _open(self) -> BpfObject:
        """The object, adjusted to the rules."""
        opened = open_object("follow")
        config = opened.section(".rodata.follow_config", abi.FollowConfig)
        for place, comm in zip(config.comms, self._rules.comms, strict=False):
            place.value = comm.encode()[: abi.Geometry.COMM - 1]
        config.cgroup = int(bool(self._rules.cgroup))
        return opened

    def _name_cgroup(self) -> bool:
        """Has the programs compare with the cgroup that is at the folder now, if any; whether that is another one."""
        try:
            fd = os.open(self._rules.cgroup, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            status = os.fstat(fd)
            new, before = (status.st_dev, status.st_ino), self._cgroup
            if new != before:
                self._object.map("cgroup", 4, 4).update(ctypes.c_uint32(0), ctypes.c_uint32(fd))
                self._cgroup = new
        except OSError as error:
            raise SsllatencyError(f"{self._rules.cgroup} isn't a folder of cgroup 2 ({error.strerror}).") from None
        finally:
            os.close(fd)
        return new != before

    def cgroup_is_new(self) -> bool:
        """Whether the cgroup was made, perhaps anew, since the last call: those that started in it before aren't in the set."""
        return bool(self._rules.cgroup) and self._name_cgroup()

    def map_fd(self, name: str) -> int:
        """The descriptor of a map that others share: `targets` or `notices`."""
        return self._object.map_fd(name)

    def attach(self, targets: Container[int] = ()) -> None:
        """Follows from now on the processes that the rules name, and all that they start. `targets`, as they come and go: those
        of which `executed` tells whether any has replaced its program."""
        with suppress(OSError):  # this kernel gives no notices: the processes' maps are read now and then instead
            self._mappings = self._stack.enter_context(Mappings(targets))
        if self._everyone:
            return
        self._keep_set()
        self.refill()

    def _keep_set(self) -> None:
        """Has the programs keep the set from here on."""
        for program in _PROGRAMS:
            self._stack.callback(self._object.attach_by_section(program).close)

    @property
    def sees_mappings(self) -> bool:
        """Whether `mapped` reports every file that is mapped as code."""
        return self._mappings is not None

    @property
    def executed(self) -> Executed:
        """The programs that processes had executed by the last call of `mapped`, as far as that is known."""
        return self._mappings.executed if self._mappings else NOT_KNOWN

    @property
    def lost(self) -> int:
        """The number of notices for `mapped` that were lost so far because a buffer was full."""
        return self._mappings.lost if self._mappings else 0

    def mapped(self) -> list[MappingNotice]:
        """Return what targets have mapped as code since the last call, those among them that have ended meanwhile."""
        mappings = self._mappings.read() if self._mappings else []
        of_targets = [mapping for mapping in mappings if self._everyone or self.has_been(mapping.pid)]
        self.by_others = [] if self._everyone else [mapping for mapping in mappings if not self.has_been(mapping.pid)]
        return of_targets

    def has_been(self, pid: int) -> bool:
        """Whether the process is in the set, or was when it ended."""
        return _has(self._bits.words[pid >> 6], pid) or self._ended.has(pid)

    def refill(self, has_begun: Callable[[int], bool] = lambda _: False) -> set[int]:
        """Adds those that the rules name now and that aren't in the set: at first all, later who was renamed or moved, or is
        just being started. Says of whom `has_begun` was true immediately before that.

        A child of a process that wasn't in the set yet is found by looking again, until a look finds nobody new. Of those that
        start others without an end the next refill finds the rest.
        """
        added: set[int] = set()
        begun: set[int] = set()
        for _ in range(_MOST_LOOKS):
            members = self._rules.members()
            inside = added | set(self.alive())  # not before the members: the programs add some meanwhile, and others end
            new = {pid: member for pid, member in members.items() if pid not in inside and not self._ended.has(pid)}
            for pid, member in new.items():
                if has_begun(pid):
                    begun.add(pid)
                self.admit(pid, member=member)
            if not new:
                break
            added |= new.keys()
        return begun

    def admit(self, pid: int, *, member: bool = False) -> None:
        """Adds a process; `member` as the programs add one by its name or cgroup, so that its next program may end that."""
        self._admitted.add(pid)
        context = struct.pack("<QQ", pid, int(member))
        buffer = ctypes.create_string_buffer(context, len(context))
        head = struct.pack("<II", self._object.program_fd("admit"), 0).ljust(40, b"\0")
        attributes = head + struct.pack("<IIQQIII", len(context), 0, ctypes.addressof(buffer), 0, 0, 0, 0)
        result = kernel.bpf(_BPF_PROG_TEST_RUN, attributes)
        if result < 0:
            raise SsllatencyError(f"the kernel didn't run a BPF program that adds process {pid} ({os.strerror(-result)}).")

    def alive(self) -> list[int]:
        """The processes now in the set, ascending, without those that had ended when they were added."""
        return [pid for pid in pids_of(self._bits) if pid not in self._admitted or exists(pid)]

    def ever(self) -> set[int]:
        """The processes now in the set, and those that have left it by ending, until their PIDs are used again."""
        ended = (number * _WORD_BITS + bit for number, word in filled_words(self._ended) for bit in bits_of(word))
        return {*pids_of(self._bits), *ended}

    def tell_of_children(self) -> None:
        """Has `wait` and `joined` tell from now on also of children of targets, as they are started; where everyone is traced,
        of children of those that `watch` is called for, and of theirs."""
        if self._everyone and not self._wishes.children:
            self._keep_set()
        self._wishes.children = 1

    def watch(self, pid: int) -> None:
        """Has children of this process told of, where everyone is traced and nobody needs to be in the set."""
        if self._everyone and self._wishes.children:
            self.admit(pid)

    def wait(self, timeout_s: float) -> bool:
        """Waits until there is something for `joined`, or probes were hit many times, at most so long; whether it was so."""
        return self._ring.wait(timeout_s)

    def fileno(self) -> int:
        """Return what `wait` waits for, as a descriptor for select()."""
        return self._ring.fileno()

    def joined(self) -> dict[int, Arrival]:
        """Return which processes became targets since the last call by their name or cgroup, or as children where that is
        told."""
        self._take_notices()
        joined, self._joined = self._joined, {}
        return joined

    @property
    def bursts(self) -> int:
        """The number of times that some process has hit probes so often that it may cost too much."""
        self._take_notices()
        return self._bursts

    def _take_notices(self) -> None:
        for notice in self._ring.records(abi.Notice):
            if notice.tgid:
                self._joined[notice.tgid] = Arrival(notice.parent, notice.at_ns)
            else:
                self._bursts += 1

    def close(self) -> None:
        """Ends the following and frees the set; may be called twice."""
        self._stack.close()
