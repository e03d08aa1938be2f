# SPDX-License-Identifier: Apache-2.0
"""Requests: what is traced, and how, whichever engine does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.rules import Rules
from ssllatency.errors import SsllatencyError
from ssllatency.model.cost import Moment
from ssllatency.model.snapshot import Target
from ssllatency.probes.costs import HitCosts
from ssllatency.probes.plan import FilePlan

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.engines.follow.following import Following
    from ssllatency.stacks.names import Names


class Side(StrEnum):
    """The SSL objects that count: those of the server side, of the client side, or any."""

    SERVER = "server"
    CLIENT = "client"
    ANY = "any"


@dataclass(frozen=True)
class LinearRange:
    """The linear histogram's buckets in microseconds, as bpftrace's lhist takes them.

    The last ends at the maximum: ValueError where it wouldn't. lhist takes such ranges, but shows what lies in that last bucket
    as if it lay beyond the maximum.
    """

    minimum: int = 0
    maximum: int = 1000
    step: int = 200

    def __post_init__(self) -> None:
        end = self.minimum + self.buckets * self.step
        if end != self.maximum:
            steps = f"steps of {self.step} from {self.minimum} end at {end}, not at {self.maximum}"
            raise ValueError(f"{steps} (take {self.minimum}:{end}:{self.step})")

    @property
    def buckets(self) -> int:
        """The number of buckets between the minimum and the maximum."""
        return -(-(self.maximum - self.minimum) // self.step)


@dataclass(frozen=True)
class TracedImage:
    """A plan, the path under which the kernel opens exactly that file, and the processes that map it.

    `companion`: set where every process that maps the files is traced, for a file that was not asked for itself, as the
    libcrypto beside a libssl: its calls count only in processes that map the file that was asked for. `root`: the root folder
    of a process that will map the file, "" where it doesn't matter. `own_links`: each process gets links of its own to it, also
    where other files are attached to by links that all share. `labels`: the ways from a connection to its handshakes' labels,
    where these are wanted. `read_names`: reads the names of the file's codes, given the image as it is by then; that takes
    long, and only a report needs them. None: it has none.
    """

    plan: FilePlan
    file: str
    pids: tuple[int, ...]
    companion: bool = False
    root: str = ""
    own_links: bool = False
    labels: Mapping[str, FieldPath] = field(default_factory=dict, compare=False)
    read_names: Callable[[TracedImage], Names] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Linking:
    """A decision on the links of a run's probes: by which method they are made, and whether every process has its own, rather
    than all of them one with a filter in the program."""

    method: Method
    each_process: bool


MOST_NAMES = int(abi.FollowLimits.NAMES)  # the most names by which processes that start later become targets


@dataclass(frozen=True)
class Request:
    """A trace that is asked for. `everyone`: whoever maps the files; else only the images' processes.

    `hit_costs` tells what a hit of a probe costs on this machine, None where it isn't known; without it nothing is said of what
    tracing costs. `budget`: the part of its CPU time that tracing may take of any process, None for any part; not bpftrace's.
    `before`: what the processes had done some time before they are traced, where somebody looked. `spares`: there are processes
    that map the files and must not get a probe. `extremes`: whether the least and greatest durations are wanted.

    `follow`: which processes that start later are traced as well; None: only those that exist. `following`: what follows them,
    where it is loaded already; its creator closes it. `childless`: none of the targets can start a process. `wait`: no process
    that makes calls needs to exist yet. `floor`: empty programs at the same sites, libbpf's only. `method`: "auto", "perf",
    "multi" or, libbpf's only, "session"; `links`: "auto", "process" (links of its own for each) or "shared" (one link and a
    filter in the program). bpftrace knows none of these four. `linking`: what these come to, where that is decided already.
    """

    images: tuple[TracedImage, ...]
    targets: tuple[Target, ...]
    everyone: bool = False
    follow: Rules | None = None
    following: Following | None = None
    childless: bool = False
    role: Side = Side.SERVER
    linear: LinearRange = LinearRange()
    maximum_processes: int = 256
    floor: bool = False
    method: str = "auto"
    links: str = "auto"
    wait: bool = False
    hit_costs: Callable[[], HitCosts | None] | None = None
    budget: float | None = None
    before: Moment | None = None
    spares: bool = False
    extremes: bool = True
    linking: Linking | None = None


class AttachError(SsllatencyError):
    """The kernel refused a probe; nothing stays attached."""


class TooManyFilesError(AttachError):
    """A run traces as many files as it can; nothing is attached of more."""
