# SPDX-License-Identifier: Apache-2.0
"""What else is different about two recordings: what was traced, and the kinds of handshakes that there were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ssllatency.model.handshakes import Label
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.handshakes import LABELS, value_words
from ssllatency.reports.words.units import share

_SHIFT = 0.05  # a share that changes by less isn't reported


def differences(before: Snapshot, after: Snapshot, page: Page) -> list[str]:
    """A line for each; nothing where there is none."""
    pairs = [("kernel", before.kernel, after.kernel), ("libraries", _libraries(before), _libraries(after))]
    lines = [f"{what}: {old or 'none'} before, {new or 'none'} after" for what, old, new in pairs if old != new]
    lines += _mix_shifts(before, after)
    return ["Different:", *(line for text in lines for line in page.wrapped(text, "  ", "    "))] if lines else []


def _libraries(snapshot: Snapshot) -> str:
    names = {
        f"{library.path} ({library.version or f'build-id {library.build_id[:12]}'})"
        for target in snapshot.targets
        for library in target.libraries
    }
    return ", ".join(sorted(names))


def _mix_shifts(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The kinds of successful handshakes whose share moved."""
    for label in (label for label in Label if label is not Label.PROCESS):
        old, new = _counts(before, label), _counts(after, label)
        whole = sum(old.values()), sum(new.values())
        if not all(whole):
            continue
        for value in dict.fromkeys((*old, *new)):
            counts = old.get(value, 0), new.get(value, 0)
            if abs(counts[0] / whole[0] - counts[1] / whole[1]) >= _SHIFT:
                shares = f"{share(counts[0], whole[0])} before, {share(counts[1], whole[1])} after"
                yield f"{LABELS[label]}, {value_words(label, value)}: {shares}"


def _counts(snapshot: Snapshot, label: Label) -> Mapping[str, int]:
    return snapshot.handshakes.mix.get(label, {}) if snapshot.handshakes else {}
