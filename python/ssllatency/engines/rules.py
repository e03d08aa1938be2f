# SPDX-License-Identifier: Apache-2.0
"""Rules for which processes that start later are traced as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class Rules:
    """The processes that are traced, now and later, with all processes that they start.

    `members` gives those that exist now: the PID of each, and whether it is a target only by its name or cgroup, and so until
    it runs another program. `comms`: every process that takes one of these names by running a program, at most MOST_NAMES
    names; `cgroup`: a folder of cgroup 2, every process that runs a program in it.
    """

    members: Callable[[], Mapping[int, bool]] = dict
    comms: tuple[str, ...] = ()
    cgroup: str = ""
