# SPDX-License-Identifier: Apache-2.0
"""A short look at the handshakes of several processes, to see which of them is busy."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import field

from ssllatency.data_class import dataclass
from ssllatency.engines.source import Ability
from ssllatency.model.handshakes import Ending, Handshakes
from ssllatency.targets import Selection
from ssllatency.tracing import handshake_sources, live


@dataclass
class Seen:
    """The number of a process's handshakes that ended in a second, and how many of them failed."""

    rate: float = 0.0
    failed: float = 0.0


@dataclass(frozen=True)
class FirstLook:
    """The handshakes of several processes, and for how long they were counted: of each by PID, nothing of those without one;
    and of all together, None where no handshake can be seen. OTHER stands for processes for which there was no room."""

    by_process: dict[int, Seen] = field(default_factory=dict)
    handshakes: Handshakes | None = None
    duration_s: float = 0.0


# Rows are of a process and an ending, and take 65 KiB each of the kernel's memory.
MOST_ROWS = 384
OTHER = 0  # instead of a PID: processes that had no row of their own any more


def look(pids: Collection[int], arguments: argparse.Namespace, seconds: float) -> FirstLook:
    """Return what was seen of these processes and their children within so many seconds. SIGINT ends it sooner.
    SsllatencyError where this machine, or any of the processes, can't be traced."""
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(Selection(pids=tuple(pids)), arguments, stack, handshakes=True)
        session, follower = handshake_sources.attach(Ability.HANDSHAKES, resolved, arguments, stack, has_links_option=False)
        live.resume_collector()
        [snapshot] = live.snapshots(session, live.RunEnd(resolved, seconds, follower), None, session.poll)
    handshakes, lasted_s = snapshot.handshakes, snapshot.duration_s
    return FirstLook(_by_process(handshakes, lasted_s) if handshakes else {}, handshakes, lasted_s)


def _by_process(measured: Handshakes, seconds: float) -> dict[int, Seen]:
    seen: dict[int, Seen] = {}
    for group in measured.groups:
        pid = group.process.pid if group.process and not group.other else OTHER
        if (group.other or pid) and seconds:
            process = seen.setdefault(pid, Seen())
            process.rate += group.count / seconds
            process.failed += group.count / seconds if group.ending is Ending.FAILURE else 0
    return seen
