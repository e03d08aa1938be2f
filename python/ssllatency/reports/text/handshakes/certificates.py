# SPDX-License-Identifier: Apache-2.0
"""The certificates that were served, a line each."""

from __future__ import annotations

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.rows.handshakes import certificates as rows
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import FINDING
from ssllatency.units import counted

_MOST = 4


def certificates(handshakes: Handshakes, page: Page, before: Handshakes | None = None) -> list[str]:
    """The first to expire, and how many there are beside them; marked where they have expired or soon will. `before`: the
    interval that was reported before this one, whose certificates needn't be repeated."""
    served = rows.certificates(handshakes, before)
    lines = []
    for one in served[:_MOST]:
        where = f" ({one.where})" if one.where else ""
        text = f"Certificate of {one.name}{where}: {', '.join(one.facts)}; {one.count}."
        wrapped = page.wrapped(text, "", "  ")
        lines += [page.marked(line, FINDING) for line in wrapped] if one.is_bad or one.is_soon else wrapped
    if served[_MOST:]:
        lines.append(f"{counted(len(served) - _MOST, 'more certificate')}, none of which is known to expire earlier.")
    return [*lines, *page.wrapped(rows.untold_sentence(handshakes), "", "  ")]
