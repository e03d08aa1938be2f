# SPDX-License-Identifier: Apache-2.0
"""Gaps in what a library shows, for which it couldn't be told how calls and handshakes ended: for the share that it
concerns."""

from __future__ import annotations

from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.snapshot import Snapshot
from ssllatency.units import counted, share

_UNKNOWN = "unknown"  # as a reason


def unclassified(snapshot: Snapshot) -> list[str]:
    """Sentences, none where everything is known."""
    return [*_calls(snapshot), *_handshakes(snapshot)]


def _calls(snapshot: Snapshot) -> list[str]:
    unsuccessful = [series for series in snapshot.series if not series.outcome.may_be_success and series.reasons]
    every = sum(series.count for series in unsuccessful)
    unknown = sum(series.reasons.get(_UNKNOWN, 0) for series in unsuccessful)
    if not unknown:
        return []
    return [
        f"{share(unknown, every)} of the calls that didn't succeed ({counted(unknown, 'call')}) can't be classified, as their"
        " library doesn't show why: those that failed may stand among the retries."
    ]


def _handshakes(snapshot: Snapshot) -> list[str]:
    groups = snapshot.handshakes.groups if snapshot.handshakes else ()
    every = sum(group.count for group in groups)
    unknown = sum(group.parts[Part.WAIT_UNKNOWN].count for group in groups if Part.WAIT_UNKNOWN in group.parts)
    unsuccessful = sum(group.count for group in groups if group.ending is not Ending.SUCCESS)
    if not unknown:
        return []
    consequence = " Those that failed may stand among the abandoned ones." if unsuccessful else ""
    return [
        f"What {share(unknown, every)} of the handshakes ({counted(unknown, 'handshake')}) waited for isn't known: their"
        f" library doesn't show it, or a call never came back.{consequence}"
    ]
