# SPDX-License-Identifier: Apache-2.0
"""Two recordings side by side as a JSON document, schema "ssllatency-diff/1"."""

from __future__ import annotations

import json

from ssllatency.model.recording import Recording
from ssllatency.model.statistics.comparison import (
    CONFIDENCE,
    Change,
    Comparison,
    Contribution,
    EndingChange,
    GroupComparison,
    SubjectComparison,
)
from ssllatency.reports.words.owners import OwnedChange, by_owner

SCHEMA = "ssllatency-diff/1"


def to_json(before: Recording, after: Recording, comparison: Comparison) -> str:
    """The document as one line without a newline at its end. What isn't known is null."""
    largest = comparison.largest
    fields = {
        "schema": SCHEMA,
        "before": _side(before),
        "after": _side(after),
        "confidence": CONFIDENCE,
        "handshake": _change(comparison.handshake) if comparison.handshake else None,
        "client_wait": _change(comparison.client_wait) if comparison.client_wait else None,
        "largest_contribution": str(largest.part) if largest else None,
        "contributions": [_contribution(contribution) for contribution in comparison.contributions],
        "rows": [_row(row) for row in comparison.rows],
        "endings": [_ending(change) for change in comparison.endings],
        "groups": [_group(group) for group in comparison.groups],
        "owners": [_owner(owner) for owner in by_owner(comparison.contributions)],
        "left_out": list(comparison.left_out),
    }
    return json.dumps(fields, allow_nan=False)


def _side(recording: Recording) -> dict[str, object]:
    return {
        "file": recording.label,
        "hosts": list(recording.hosts),
        "started": recording.started,
        "duration_s": recording.duration_s,
        "runs": len(recording.runs),
        "intervals": len(recording.intervals),
    }


def _row(row: SubjectComparison) -> dict[str, object]:
    return {
        "kind": row.subject.kind,
        "name": row.subject.name,
        "outcome": row.subject.outcome,
        "changes": {str(quantity): _change(change) for quantity, change in row.changes.items()},
    }


def _ending(change: EndingChange) -> dict[str, object]:
    return {
        "ending": str(change.ending),
        "reason": change.reason or None,
        "alert": change.alert or None,
        "before": change.counts[0],
        "after": change.counts[1],
        "of_before": change.wholes[0],
        "of_after": change.wholes[1],
        "probability": _rounded(change.probability),
        "verdict": str(change.verdict),
    }


def _group(group: GroupComparison) -> dict[str, object]:
    return {
        "labels": {str(label): value for label, value in group.group.labels},
        "other": group.group.other,
        "before": group.counts[0],
        "after": group.counts[1],
        "changes": {str(quantity): _change(change) for quantity, change in group.changes.items()},
        "failed": _ending(group.failed) if group.failed else None,
    }


def _change(change: Change) -> dict[str, object]:
    return {
        "before": _rounded(change.before),
        "after": _rounded(change.after),
        "ratio": _rounded(change.ratio),
        "low": _rounded(change.low),
        "high": _rounded(change.high),
        "probability": _rounded(change.probability),
        "verdict": str(change.verdict),
    }


def _owner(owner: OwnedChange) -> dict[str, object]:
    return {"owner": str(owner.part), **_times(owner)}


def _contribution(contribution: Contribution) -> dict[str, object]:
    return {"part": str(contribution.part), **_times(contribution)}


def _times(contribution: Contribution | OwnedChange) -> dict[str, object]:
    return {
        "before_ns": round(float(contribution.before_ns), 2),
        "after_ns": round(float(contribution.after_ns), 2),
        "change_ns": round(float(contribution.change_ns), 2),
    }


def _rounded(value: float | None) -> float | None:
    """Six significant digits, more than any of these has meaning."""
    return None if value is None else float(f"{value:.6g}")
