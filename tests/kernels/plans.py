# SPDX-License-Identifier: Apache-2.0
"""Which guests are booted, with which parameters, and what each of them checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.kernels.machine import SIGNING, Installed
from tests.kernels.packages import WANTED, version_of

ALL = tuple(WANTED)
DEBIAN_12, DEBIAN_13 = "bookworm", "trixie"
# Booted with Debian 13's root as well: its own kernel, and one that attaches by session.
_ALSO_WITH_DEBIAN_13 = ("6.12", "sid")
_LAZY = (6, 13)  # the first Linux with preempt=lazy
CI = ("6.1", "newest")  # Debian 12's own, and the newest of the mirror

GO = ("Go", "Go parts")
_SELECTED = (
    *("doctor", "programs load", "private stacks", "sites"),
    *("trace", "handshakes", "late to write", "snoop", "record", "budget", "reload", "kTLS"),
)
_COUNTS = (
    *("trace perf", "trace multi", "trace session"),
    *("links process", "links shared", "links process perf", "links shared perf"),
    *("handshakes off-CPU", "reload perf", "threads", "threads links process", "started later", *GO),
)
ENGINES = ("engine bcc", "engine bpftrace")
SIGNED = ("signed return addresses",)
RIGHTS = ("three capabilities", "three capabilities perf", "events of tracefs", "seccomp")
LEAVINGS = ("nothing left", "nothing left perf", "nothing left killed", "nothing left killed perf")
# The last one can't be undone.
ODD = (
    *("lockdown integrity", "no tracefs", "no BTF", "no uprobes", "cgroup v1", "cgroup hybrid"),
    *("unprivileged BPF disabled", "lockdown confidentiality"),
)
_EVERYTHING = (*_SELECTED, "costs of sites", *_COUNTS, *RIGHTS, *LEAVINGS)


@dataclass(frozen=True)
class Plan:
    """One guest: its kernel, what its command line says beside the usual, its checks in their order, its time limit, the suite
    of its root, and its processor where that isn't the usual one (a key of machine.PROCESSORS)."""

    name: str
    kernel: Installed
    parameters: str
    checks: tuple[str, ...]
    limit_s: float
    root: str = DEBIAN_12
    processor: str = ""


def roots_for(names: Iterable[str]) -> tuple[str, ...]:
    """The suites of the roots that guests of these kernels boot with."""
    return (DEBIAN_12, DEBIAN_13) if set(names) & set(_ALSO_WITH_DEBIAN_13) else (DEBIAN_12,)


def plans(selection: str, architecture: str, checks: str = "") -> list[Plan]:
    """The guests of a selection: "ci", "all", or kernels by name, separated by commas. With `checks` only these of theirs.

    ValueError for an unknown kernel.
    """
    wanted = set(checks.split(",")) if checks else None
    chosen = _guests(selection, architecture)
    if wanted is None:
        return chosen
    fewer = [replace(plan, checks=tuple(check for check in plan.checks if check in wanted)) for plan in chosen]
    return [plan for plan in fewer if plan.checks]


def _guests(selection: str, architecture: str) -> list[Plan]:
    if selection == "ci":
        return [plan for name in CI for plan in _selected(Installed(name, architecture))]
    names = ALL if selection == "all" else tuple(selection.split(","))
    if unknown := [name for name in names if name not in WANTED]:
        raise ValueError(f"no kernel is called {' or '.join(unknown)}: choose from ci, all, {', '.join(WANTED)}")
    return [plan for name in names for plan in _everything(Installed(name, architecture))]


def _selected(kernel: Installed) -> list[Plan]:
    """What CI has time for: a guest of each kernel, which ends with a minute of stress.

    Left to "all": the trace alone, as the one of the budget counts as much, the recording, which differs by no kernel, and Go
    on all but the first kernel.
    """
    checks = [check for check in _SELECTED if check not in ("trace", "record")]
    checks += GO if kernel.name == CI[0] else ()
    return [Plan(kernel.name, kernel, "preempt=full stress_s=60", (*checks, "stress"), 1320)]


def _everything(kernel: Installed) -> list[Plan]:
    """Every check, and the stress three times as long as a defect took to show, with each way of preempting."""
    ways = ("full", "lazy") if version_of(kernel.release) >= _LAZY else ("full",)
    stresses = [Plan(f"{kernel.name} {way}", kernel, f"preempt={way} stress_s=90", ("stress",), 480) for way in ways]
    odd = Plan(f"{kernel.name} odd", kernel, "lockdown=integrity", ODD, 900)
    engines = Plan(f"{kernel.name} engines", kernel, "", ENGINES, 900)
    return [Plan(kernel.name, kernel, "", _EVERYTHING, 1800), engines, odd, *stresses, *_with_debian_13(kernel)]


def _with_debian_13(kernel: Installed) -> list[Plan]:
    """Debian 13's OpenSSL, bcc and bpftrace. On aarch64 its packages sign return addresses, and this processor heeds that."""
    if kernel.name not in _ALSO_WITH_DEBIAN_13:
        return []
    arm = kernel.architecture == "arm64"
    checks = (*_SELECTED, *ENGINES, *(SIGNED if arm else ()))
    return [Plan(f"{kernel.name} Debian 13", kernel, "", checks, 1800, DEBIAN_13, SIGNING if arm else "")]
