# SPDX-License-Identifier: Apache-2.0
"""What a hit of a probe costs on this machine: measured once a boot, and then taken from the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from functools import cache
from pathlib import Path

from ssllatency.engines import hit_cost
from ssllatency.engines.bpf import kernel
from ssllatency.probes.cache import store
from ssllatency.probes.costs import HitCosts
from ssllatency.targets.hazards import hazards

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOST_NS = 10_000_000


@cache
def of_this_machine(*, keep: bool = True) -> HitCosts | None:
    """By the best way of attaching that this kernel has; None where this user may not attach, the machine isn't one that is
    supported, or it was too busy for a figure. `keep`: whether the cache may be asked, and told."""
    method = kernel.best_method()
    boot = _boot_id()
    name = store.entry_name(boot, "hit costs", method) if keep and boot else ""
    if name and (kept := _read(store.load(store.default_directory(), name))):
        return kept
    own = hazards([os.getpid()])
    deadly = kernel.return_probes_kill(kernel.release(), seccomp=own.seccomp, shadow_stack=own.shadow_stack)
    try:
        costs = hit_cost.measure(method, returns=not deadly)
    except (OSError, KeyError):
        return None
    if not _are_costs(astuple(costs)):
        return None
    if name:
        store.store(store.default_directory(), name, asdict(costs))
    return costs


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _read(entry: object) -> HitCosts | None:
    """The costs of an entry; None for one that isn't what was stored."""
    names = [field.name for field in fields(HitCosts)]
    if not isinstance(entry, dict) or sorted(entry) != sorted(names):
        return None
    values = [entry[name] for name in names]
    return HitCosts(*values) if _are_costs(values) else None


def _are_costs(values: Sequence[object]) -> bool:
    """Whether these can be nanoseconds of a hit. A difference of two times isn't above 0 where other work disturbed them."""
    return all(isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST_NS for value in values)
