# SPDX-License-Identifier: Apache-2.0
"""The cost of a hit of a probe on this machine: measured once a boot, and then taken from the cache."""

from __future__ import annotations

import os
from dataclasses import asdict, astuple, replace
from functools import cache
from pathlib import Path

from ssllatency.engines import hit_cost
from ssllatency.engines.bpf import kernel
from ssllatency.fields import Field, FieldError
from ssllatency.host.kernel import release, return_probes_kill
from ssllatency.host.kernel_text import kernel_text
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
    deadly = return_probes_kill(release(), seccomp=own.seccomp, shadow_stack=own.shadow_stack)
    try:
        costs = hit_cost.measure(method, returns=not deadly)
    except (OSError, KeyError):
        return None
    if not _is_measured(costs):
        return None
    if name:
        store.store(store.default_directory(), name, asdict(costs))
    return costs


def _boot_id() -> str:
    try:
        return kernel_text(_BOOT_ID).strip()
    except OSError:
        return ""


def _read(entry: object) -> HitCosts | None:
    """The costs of an entry; None for one that isn't what was stored."""
    try:
        costs = HitCosts(**{name: value.whole(_MOST_NS) for name, value in Field(entry).record(HitCosts).items()})
    except FieldError:
        return None
    return costs if _is_measured(costs) else None


def _is_measured(costs: HitCosts) -> bool:
    """A difference of two times isn't above 0 where other work disturbed them. That other work makes no hit dearer may be."""
    return all(value > 0 for value in astuple(replace(costs, after_work=1)))
