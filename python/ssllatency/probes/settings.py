# SPDX-License-Identifier: Apache-2.0
"""The settings that a command's options and the kernel make for all plans. Plans of one file differ by nothing else."""

from __future__ import annotations

from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class PlanSettings:
    """The settings of plans, and of what else is found out about a file.

    `return_probes`: whether kernel return probes may be used where they are safe and a way out can't be covered;
    `prefer_return_probes`: also where they are only cheaper. `emulation`: what the kernel emulates. `branch_exits`: whether the
    engine can tell which way a branch goes, and take a constant for the return value. `machine`: the processor whose code
    counts, "" for any.
    """

    return_probes: bool = True
    prefer_return_probes: bool = False
    emulation: Emulation = BASELINE
    branch_exits: bool = True
    machine: str = ""


DEFAULTS = PlanSettings()
