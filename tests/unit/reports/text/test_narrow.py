# SPDX-License-Identifier: Apache-2.0
"""Text on a terminal of 80 columns: every line fits, less important columns are gone, and no number is broken. In a file, lines
are as long as they are. Colours: what failed and what takes the time stand out, on a terminal that shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.measured.recordings import recording_of
from tests.unit.reports.handshake_samples import distant, failing, near, offloaded
from tests.unit.reports.report_samples import busy, processes, series_of, snapshot_of, spread, troubled

from ssllatency.model.arithmetic.snapshots import merge
from ssllatency.model.events import Call, Caller, Event, Returned
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.model.statistics.compare import compare
from ssllatency.output.printing import as_shown
from ssllatency.reports.text import diff, trace
from ssllatency.reports.text.events import HEADINGS, Columns, NarrowColumns, columns
from ssllatency.reports.text.handshakes import report as handshakes
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import END, FAILURE, FINDING

NARROW, WIDE, FILE = Page(80, most=80), Page(100, most=200), Page()
COLOURED = Page(80, most=80, colour=True)
LONGEST = "ossl_ecdsa_simple_sign_sig_and_more"


def large() -> Snapshot:
    """Counts and times of many digits, and a long name."""
    return snapshot_of(
        *(series_of(name, outcome, spread(3000, 50_000_000, 59_990_000_000), 1240, reasons_of(outcome, 3000))
          for name in (LONGEST, "rsa_ossl_private_encrypt")
          for outcome in (Outcome.SUCCESS, Outcome.FAILURE)),
    )  # fmt: skip


def reasons_of(outcome: Outcome, count: int) -> dict[str, int]:
    return {"SYSCALL": count} if outcome is Outcome.FAILURE else {}


def many_times(snapshot: Snapshot) -> Snapshot:
    """The same again and again: 2^16 times as many of all."""
    for _ in range(16):
        snapshot = merge(snapshot, snapshot)
    return snapshot


SNAPSHOTS = [busy(), processes(), troubled(), large(), many_times(large())]
NUMBER = re.compile(r"\d+(?:\.\d+)? (?:ns|us|ms|s|%)(?![\w])")


def fits(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 80


def numbers(lines: Iterable[str]) -> set[str]:
    return {number for line in lines for number in NUMBER.findall(line)}


@pytest.mark.parametrize("number", range(len(SNAPSHOTS)))
@pytest.mark.parametrize("by_process", [False, True])
def test_a_trace_fits(number: int, by_process: bool) -> None:
    snapshot = SNAPSHOTS[number]
    text, whole = (trace.render(snapshot, page, by_process=by_process) for page in (NARROW, FILE))
    assert fits(text)
    assert numbers(text.splitlines()) <= numbers(whole.splitlines())  # each is whole, with its unit
    headings = re.findall(r"^FUNCTION.*$", text, re.MULTILINE)
    assert headings
    assert all({"FUNCTION", "OUTCOME", "COUNT", "P99", "MAX"} <= {*heading.split()} for heading in headings)


@pytest.mark.parametrize("snapshot", [near(), distant(), offloaded(), failing(), many_times(near())])
def test_handshakes_fit(snapshot: Snapshot) -> None:
    assert fits(handshakes.render(snapshot, NARROW))


@pytest.mark.parametrize("scale", [1, 40_000])
def test_a_diff_fits(scale: int) -> None:
    before, after = recording_of(1, key_ns=700_000 * scale), recording_of(2, key_ns=1_900_000 * scale)
    comparison = compare(before, after)
    text = diff.render(before, after, comparison, NARROW, all_rows=True)
    assert fits(text)
    assert re.search(r"^  successful handshakes, wall$", text, re.MULTILINE)
    assert re.search(r"^ +MEAN .*P99$|^ +RATE +MEAN .*P99$", text, re.MULTILINE)
    whole = diff.render(before, after, comparison, FILE, all_rows=True)
    assert numbers(text.splitlines()) <= numbers(whole.splitlines())
    short = diff.render(before, after, comparison, NARROW)
    assert fits(short)
    assert len(short.splitlines()) < 35
    assert numbers(short.splitlines()) <= numbers(whole.splitlines())


def test_a_file_gets_all_columns_however_long_the_lines() -> None:
    text = trace.render(large(), FILE)
    assert not fits(text)
    assert "P99.9" in text
    assert text == trace.render(large())
    assert text == trace.render(large(), WIDE)  # a wide terminal has room for them


class Keys:
    """One caller and one call."""

    def caller(self, key: bytes) -> Caller:
        return Caller(4194303, 4194302, key.decode())

    def call(self, key: int) -> Call:
        return CALLS[key]


CALLS = [
    Call("SSL_do_handshake", Returned.NUMBER, Outcome.RETRY, "WANT_READ"),
    Call("rsa_ossl_private_encrypt", Returned.POINTER, Outcome.FAILURE, "SYSCALL"),
    Call("SSL_do_handshake", Returned.NUMBER, Outcome.RETRY, "WANT_RETRY_VERIFY"),
]
EVENT: Event = (0, 99_999_999_900, (1 << 64) - 1, 999_999_999, b"\x1b[2Jhostile", 0)


@pytest.mark.parametrize("width", range(80, 126, 3))
def test_snooped_lines_fit_and_have_what_matters(width: int) -> None:
    lines = columns(Keys(), Page(min(width, 100), most=width))
    events = [(*EVENT[:5], 0), (*EVENT[:2], 0x7FFFFFFFF000, *EVENT[3:5], 1), (*EVENT[:5], 2)]
    drawn = [lines.heading.rstrip("\n"), *(line.rstrip("\n") for line in lines.render(events, 0))]
    if isinstance(lines, NarrowColumns):
        assert max(map(len, drawn)) <= width
    assert all(line.isprintable() for line in drawn)
    assert {"TIME", "PID", "FUNC", "LAT(us)", "OUTCOME"} <= {*drawn[0].split()} <= {*HEADINGS.split()}
    assert [line.split()[1] for line in drawn[1:]] == ["4194303"] * 3
    assert all("99999999.9" in line for line in drawn[1:])
    assert drawn[1].endswith("retry WANT_READ")


def test_more_columns_come_with_more_room() -> None:
    shown = [{*columns(Keys(), Page(80, most=width)).heading.split()} for width in range(80, 130)]
    assert all(len(fewer) <= len(more) for fewer, more in pairwise(shown))
    assert shown[-1] == {*HEADINGS.split()}
    assert type(columns(Keys(), FILE)) is Columns


def test_failures_findings_and_the_longest_part_stand_out() -> None:
    text = trace.render(busy(), COLOURED)
    marked = [line for line in text.splitlines() if FAILURE in line]
    assert marked
    assert all(" failure " in line and line.startswith(FAILURE) and line.endswith(END) for line in marked)
    report = handshakes.render(failing(), COLOURED)
    assert any(line.startswith(f"{FINDING}==> ") for line in report.splitlines())
    assert any("failed:" in line for line in report.splitlines() if line.startswith(FAILURE))
    unmarked = re.sub("[\ue000-\ue00f]", "", report)
    assert unmarked == handshakes.render(failing(), NARROW)


def test_marks_become_colours_and_nothing_of_a_target_does() -> None:
    hostile = snapshot_of(series_of("SSL_read\x1b[2J\ue000x", Outcome.FAILURE, [1000], 1240, {"\x1b[31m": 1}))
    shown = as_shown(trace.render(hostile, COLOURED), colour=True)
    assert set(re.findall(r"\x1b\[[\d;]*[A-Za-z]", shown)) <= {"\x1b[1;31m", "\x1b[0m"}
    assert "\\x1b[2J\\ue000x" in shown
    assert as_shown("a\ue000b\x1b", colour=False) == "a\\ue000b\\u001b"
    assert replace(COLOURED, colour=False).marked("x", FAILURE) == "x"
