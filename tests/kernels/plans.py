# SPDX-License-Identifier: Apache-2.0
"""Which guests are booted, with which parameters, and what each of them checks."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kernels.machine import Installed
from tests.kernels.packages import WANTED

ALL = tuple(WANTED)
CI = ("6.1", "newest")  # Debian 12's own, and the newest of the mirror

_LOADS = ("doctor",)
_COUNTS = ("trace", "handshakes", "snoop")


@dataclass(frozen=True)
class Plan:
    """One guest: its kernel, what its command line says beside the usual, its checks in their order, its time limit."""

    name: str
    kernel: Installed
    parameters: str
    checks: tuple[str, ...]
    limit_s: float


def plans(selection: str, architecture: str) -> list[Plan]:
    """The guests of a selection: "ci", "all", or kernels by name, separated by commas. ValueError for a name of none."""
    names = CI if selection == "ci" else ALL if selection == "all" else tuple(selection.split(","))
    if unknown := [name for name in names if name not in WANTED]:
        raise ValueError(f"no kernel is called {' or '.join(unknown)}: choose from ci, all, {', '.join(WANTED)}")
    return [_matrix(Installed(name, architecture)) for name in names]


def _matrix(kernel: Installed) -> Plan:
    return Plan(kernel.name, kernel, "", (*_LOADS, *_COUNTS), 900)
