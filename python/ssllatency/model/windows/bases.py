# SPDX-License-Identifier: Apache-2.0
"""Bases that calls are scaled by: what the traced processes did in all, and in windows.

A window lies at a random place, so by time alone its calls would stand for the rest of the stratum, if the server did in it
what it does between windows. One at full speed doesn't: it is slower while it is watched, and its clients wait for it. What it
did between windows is told by what the kernel counts all the time, and what tracing doesn't change by the call: its read and
write system calls, where it makes some for its TLS calls; else its CPU time less what tracing took of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.sampling import NONE, Basis, Stratum, Work

_MOST_CALLS = 4  # of TLS for each system call: past it these aren't what the calls consist of
_ALIKE = 1.1  # at most so much more CPU time for each system call have windows that are like the time between them
_SLOWED = 0.5  # the part of what tracing takes by which processes at full speed do less at least


def choose(strata: Sequence[Stratum]) -> Basis:
    """Choose the basis for calls that were seen in these strata, which weren't watched all the time."""
    watched = sum((stratum.watched for stratum in strata), start=NONE)
    calls = sum(sum(counts.values()) for stratum in strata for counts in stratum.calls.values())
    if watched.io_calls and calls <= _MOST_CALLS * watched.io_calls:
        return Basis.IO_CALLS
    return Basis.CPU_TIME if _are_slowed(strata) else Basis.TIME


def is_slower(strata: Sequence[Stratum]) -> bool:
    """Whether the processes are slower in windows than between them, as far as that is known: then the calls' times are longer
    than they would be by more than the probes themselves."""
    if choose(strata) is not Basis.IO_CALLS:
        return _are_slowed(strata)
    watched = sum((stratum.watched for stratum in strata), start=NONE)
    between = sum((stratum.whole - stratum.watched for stratum in strata), start=NONE)
    if not between.io_calls or not between.own_ns or not watched.io_calls or watched.own_ns is None:
        return False
    in_windows_ns = (watched.own_ns + (watched.cost_ns or 0.0)) / watched.io_calls
    return in_windows_ns > _ALIKE * between.own_ns / between.io_calls


def _are_slowed(strata: Sequence[Stratum]) -> bool:
    """Whether the processes do less of their own in windows than between them, by the half or more of what tracing takes. Those
    that have processor time to spare take more of it instead."""
    watched = sum((stratum.watched for stratum in strata), start=NONE)
    between = sum((stratum.whole - stratum.watched for stratum in strata), start=NONE)
    watched_s = sum(stratum.watched_s for stratum in strata)
    between_s = sum(stratum.length_s for stratum in strata) - watched_s
    if not watched.own_ns or not watched.cost_ns or not between.own_ns or between_s <= 0:
        return False
    slower = between.own_ns / between_s - watched.own_ns / watched_s
    return slower > _SLOWED * watched.cost_ns / watched_s


def amount(work: Work, length_s: float, basis: Basis) -> float:
    """Return how much work that is by the basis."""
    value = {Basis.IO_CALLS: work.io_calls, Basis.CPU_TIME: work.own_ns, Basis.TIME: length_s}[basis]
    assert value is not None
    return value
