# SPDX-License-Identifier: Apache-2.0
"""Which processes that come later are traced as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Who is traced, now and later, with all that they start.

    `members` gives those that there are now: the PID of each, and whether it belongs only by its name or cgroup, which ends
    when it runs another program. `comms`: whoever takes one of these names by running a program, MOST_NAMES at most; `cgroup`:
    a folder of cgroup 2, whoever runs a program in it.
    """

    members: Callable[[], Mapping[int, bool]] = dict
    comms: tuple[str, ...] = ()
    cgroup: str = ""
