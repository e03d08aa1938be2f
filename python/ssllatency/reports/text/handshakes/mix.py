# SPDX-License-Identifier: Apache-2.0
"""The kinds of handshakes that there were: the mix of the labels, and the private keys."""

from __future__ import annotations

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.rows.handshakes import kinds
from ssllatency.reports.rows.handshakes.kinds import LabelMix
from ssllatency.reports.text.page import Page
from ssllatency.units import counted, share

_MOST_VALUES = 6


def mix(handshakes: Handshakes, page: Page) -> list[str]:
    """A line a label with its values, the most frequent first; and one of the private keys used."""
    lines = {label.name: _values(label) for label in kinds.mix(handshakes)}
    for label, reason in kinds.unknown_labels(handshakes).items():
        lines.setdefault(label, f"not known: {reason}")
    keys = [f"{key.words} {key.share} (mean {key.mean})" for key in kinds.keys(handshakes)]
    if handshakes.keys:
        lines["private key"] = ", ".join(keys)
    width = max(map(len, lines), default=0)
    return [line for name, text in lines.items() for line in page.wrapped(text, f"  {name:<{width}}  ", " " * (width + 4))]


def _values(label: LabelMix) -> str:
    shown, rest = label.values[:_MOST_VALUES], label.values[_MOST_VALUES:]
    number = sum(value.count for value in rest)
    more = [f"{counted(len(rest), 'other')} {share(number, label.count)}"] if number else []
    return ", ".join([*(f"{value.words} {value.share}" for value in shown), *more])
