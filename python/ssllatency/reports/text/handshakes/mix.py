# SPDX-License-Identifier: Apache-2.0
"""What kinds of handshakes there were: the mix of the labels, the private keys, and the groups."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.rows import kinds
from ssllatency.reports.rows.kinds import LabelMix
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.units import counted, share

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


def groups(handshakes: Handshakes, page: Page) -> list[str]:
    """The groups as a table."""
    rows = kinds.group_rows(handshakes)
    if not rows:
        return []
    left = len(handshakes.by)
    headings = [heading.upper() for heading in kinds.group_headings(handshakes)]
    cells = [headings, *([*row.names, *row.cells] for row in rows)]
    lines = page.table(cells, left=left + 1)
    if max(map(len, lines)) > page.width:
        lines = _stacked([row[:left] for row in cells], [row[left:] for row in cells], page)
    return ["Groups:", *lines]


def _stacked(labels: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], page: Page) -> list[str]:
    """Where the labels leave no room beside them: each group's above its row."""
    lines = []
    for names, line in zip(labels, page.table(rows, left=1), strict=True):
        lines += [*page.wrapped(", ".join(filter(None, names)), "  ", "  "), f"  {line}"]
    return lines
