# SPDX-License-Identifier: Apache-2.0
"""The HTML page: sound, self-contained, of bounded size, and holding the numbers of the recording."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from tests.parameters import slow_except
from tests.unit.reports.handshake_samples import distant, failing, offloaded
from tests.unit.reports.html.html_reading import Reading
from tests.unit.reports.html.html_samples import RECORDINGS, alone, at, served
from tests.unit.reports.report_samples import LIBSSL, busy, series_of, snapshot_of

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.handshake_sums import client_wait_ns, total
from ssllatency.model.arithmetic.snapshots import by_function
from ssllatency.model.handshakes import Cause, Ending, Part
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Missing, Outcome, Snapshot, Target
from ssllatency.model.statistics.comparison import WALL, Change, Comparison, SubjectComparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.html import page as html_page
from ssllatency.reports.html.blocks import FindingMark
from ssllatency.reports.html.change import findings
from ssllatency.reports.html.handshake_sections import endings
from ssllatency.reports.html.page import page
from ssllatency.reports.html.words import sentence, typeset, visible
from ssllatency.reports.rows.changes import with_sign
from ssllatency.units import duration

HOSTILE = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}${x}$\u202e\x1b[31m\ud800"
_ADDRESS = re.compile(r"(?:[a-z]+:)?//[^\s\"')]+|url\([^#)][^)]*\)|@import")
QUICK = slow_except(RECORDINGS, "changed", "interrupted", "failing", "functions", "nothing")
NOTHING = {"nothing", "no_call"}


@cache
def _page(name: str) -> str:
    return page(*RECORDINGS[name]())


@pytest.mark.parametrize("name", QUICK)
def test_sound_and_needs_nothing_beside_itself(name: str) -> None:
    text = _page(name)
    read = Reading(text)
    assert text.lstrip().startswith("<!DOCTYPE html>")
    assert not _ADDRESS.findall(re.sub(r"data:image/png;base64,[\w+/=]+", "", text))
    assert not {tag for tag, _ in read.elements} & {"script", "link", "iframe", "object", "base", "form"}
    assert "#fe01" not in text  # every stand-in of a colour was found


@pytest.mark.parametrize("name", QUICK)
def test_accessible(name: str) -> None:
    read = Reading(_page(name))
    tags = [tag for tag, _ in read.elements]
    assert next(attributes for tag, attributes in read.elements if tag == "html")["lang"] == "en"
    assert [tags.count(tag) for tag in ("h1", "header", "main", "footer")] == [1, 1, 1, 1]
    assert all(deeper <= level + 1 for level, deeper in zip(read.headings, read.headings[1:], strict=False))
    assert tags.count("figure") == tags.count("figcaption") == tags.count("svg") // 2
    assert (tags.count("svg") == 0) == (name in NOTHING)
    for tag, attributes in read.elements:
        assert tag != "svg" or (
            attributes["role"] == "img" and attributes["aria-labelledby"] and attributes["aria-describedby"]
        )
    assert tags.count("title") == tags.count("svg") + 1
    assert tags.count("desc") == tags.count("svg")


@pytest.mark.parametrize("name", QUICK)
def test_has_the_numbers_of_the_total(name: str) -> None:
    recording, _ = RECORDINGS[name]()
    whole = recording.total()
    rows = {tuple(cell.partition("was ")[0] for cell in row[:4]) for table in Reading(_page(name)).tables for row in table}
    for one in by_function(whole).series:
        mean = typeset(duration(one.total_ns / one.count))
        assert (visible(one.function), str(one.outcome), str(one.count), mean) in rows
    counts = {row[1] for row in rows if len(row) > 1}
    if whole.handshakes:
        assert {str(cause.count) for cause in whole.handshakes.causes} <= counts
        assert {str(use.count) for use in whole.handshakes.keys} <= counts


def test_says_what_changed_and_why() -> None:
    text = Reading(_page("changed")).text
    assert "The largest contribution: private key, +" in text
    assert re.search(
        r"The mean successful handshake takes .* before and .* after \(\+\d+ %, 95 % confidence interval .*\): slower", text
    )


@pytest.mark.slow
def test_same_recording_makes_the_same_page() -> None:
    assert page(*RECORDINGS["changed"]()) == _page("changed")


def test_what_a_target_chose_stays_text() -> None:
    known = failing()
    assert known.handshakes
    cause = replace(known.handshakes.causes[0], reason=HOSTILE, state=HOSTILE, library=HOSTILE, alert=HOSTILE)
    library = replace(LIBSSL, path=HOSTILE, version=HOSTILE)
    slow = [replace(single, comm=HOSTILE, reason=HOSTILE) for single in distant().handshakes.slowest]  # type: ignore[union-attr]
    assert slow
    hostile = replace(
        known,
        host=HOSTILE,
        kernel=HOSTILE,
        targets=(Target(7, HOSTILE, (library,)),),
        series=(series_of(HOSTILE, Outcome.RETRY, [1000], 7, {HOSTILE: 1}), series_of(HOSTILE, Outcome.SUCCESS, [5000], 7)),
        missing=(Missing(HOSTILE, HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        handshakes=replace(known.handshakes, causes=(cause,), slowest=tuple(slow)),
    )
    text = page(replace(alone(hostile), label=HOSTILE))
    read = Reading(text)
    assert "script" not in {tag for tag, _ in read.elements}
    assert not [attributes for tag, attributes in read.elements if tag == "img"]
    assert {"\u202e", "\x1b", "\ud800"}.isdisjoint(text)
    assert "<script>alert(1)</script>" in read.text
    assert "{{ 7*7 }}" in read.text
    text.encode()


@pytest.mark.slow
def test_an_hour_by_the_second_is_below_a_megabyte() -> None:
    few = served(30).intervals
    recording = Recording.of([at(few[second % 30], second) for second in range(3600)])
    assert len(page(recording).encode()) < 1_000_000


@pytest.mark.slow
def test_much_of_everything_is_below_a_megabyte() -> None:
    functions = [
        series_of(f"function_{number}_{'x' * 90}", outcome, [1000, 2000]) for number in range(400) for outcome in Outcome
    ]
    targets = tuple(Target(pid, f"program-{pid}", (replace(LIBSSL, path="/" + "x" * 4000),)) for pid in range(1, 2000))
    missing = tuple(Missing(f"name_{number}", f"/{number}/{'x' * 4000}", "not in this library") for number in range(1000))
    recording = alone(snapshot_of(*functions, targets=targets, missing=missing))
    text = page(recording, recording)
    assert len(text.encode()) < 1_000_000
    assert "left out here" in text


def test_time_that_was_not_measured_is_hatched() -> None:
    assert "Hatched: not measured." in Reading(_page("interrupted")).text
    assert "not measured" not in Reading(_page("over_time")).text


def test_phases_and_waits_stand_in_one_table() -> None:
    recording, before = RECORDINGS["changed"]()
    groups = [total(one.total().handshakes, Ending.SUCCESS) for one in (recording, before) if one]  # type: ignore[arg-type]
    after_ns, before_ns = (group.parts[Part.PRIVATE_KEY].total_ns / group.count for group in groups if group)
    tables = [table for table in Reading(_page("changed")).tables if table[0][0] == "Part"]
    assert len(tables) == 1
    rows = {row[0]: row[1:] for row in tables[0]}
    assert rows["Part"][:4] == ["Mean of all", "Count", "Share", "Mean"]
    lines = duration(after_ns), f"was {duration(before_ns)}", with_sign(after_ns - before_ns)
    assert rows["Kprivate key"][0] == "".join(map(typeset, lines))


def test_slowest_handshakes_are_bars_with_their_numbers_beside_them() -> None:
    recording, _ = RECORDINGS["kinds"]()
    handshakes = recording.total().handshakes
    assert handshakes
    waited_ns = sorted((client_wait_ns(single.parts) for single in handshakes.slowest), reverse=True)
    read = Reading(_page("kinds"))
    table = next(table for table in read.tables if table[0][0] == "Handshake")
    assert table[0][3:5] == ["Queue", "Time"]
    assert [row[4] for row in table[1:]] == list(map(typeset, map(duration, waited_ns)))
    assert "queue 47.1\u00a0ms (in handshakes 29.7\u00a0ms, no processor 12.3\u00a0ms, asleep 3.90\u00a0ms)" in table[2][3]
    assert table[3][3] == ""
    assert "2: nginx (1240): 158 ms, of it before: queue 41.0 ms (" in read.text
    assert "1: nginx (1240): 30.0 s, of it rest" in read.text
    assert "wait: peer 27.0\u00a0s, rest 3.00\u00a0s" in table[1]


def test_what_is_known_of_the_network_is_told_in_a_sentence() -> None:
    text = Reading(_page("kinds")).text
    flights = "Network and resumption: 2.3 flights of the peer per handshake were waited for; 33 % needed a HelloRetryRequest; "
    assert flights in text
    assert "Before: Network" not in text
    known = distant()
    assert known.handshakes
    both = Reading(page(Recording.of([known]), Recording.of([known]))).text
    assert f"Before: {flights}" in both


def test_a_reason_of_two_endings_stands_beside_what_it_was_of_each() -> None:
    def closed(failed: int, abandoned: int) -> Snapshot:
        counts = {Ending.FAILURE: failed, Ending.ABANDONED: abandoned}
        causes = [Cause(ending, "closed", 0, "", "", False, "", count, count) for ending, count in counts.items()]
        known = failing()
        assert known.handshakes
        return replace(known, handshakes=replace(known.handshakes, causes=tuple(causes)))

    rows = [row for row in endings(closed(3, 5), closed(2, 7)).lines if row.row.names == ("closed",)]
    assert [(row.cells[0].text, row.cells[0].was) for row in rows] == [("3", "2"), ("5", "7")]


def test_says_how_many_lanes_batches_used() -> None:
    handshakes = offloaded().handshakes
    assert handshakes
    assert handshakes.offload
    read = Reading(_page("offloaded"))
    tables = [table for table in read.tables if table[0][0] == "Lanes used"]
    for table, batches in zip(tables, handshakes.offload.batches, strict=True):
        assert {int(lanes): int(calls) for lanes, calls, _ in table[1:] if int(calls)} == {
            lanes: calls for lanes, calls in enumerate(batches.fill) if calls
        }
    assert "Handshakes waiting for it: 3 at the end, 41 at most." in read.text


def test_says_what_was_lost() -> None:
    text = Reading(_page("failing")).text
    assert "Not everything was counted" in text
    assert "7 calls not counted because a kernel map was full" in text
    assert "Not everything was counted" not in Reading(_page("functions")).text


def test_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(html_page, "import_module", absent)
    with pytest.raises(SsllatencyError, match="aren't installed: `apt-get install python3-jinja2 python3-matplotlib`"):
        page(alone(busy()))


def _marks(name: str) -> list[tuple[str, str]]:
    """The marks of the findings and how their sentences begin."""
    found = re.findall(r'<p class="finding (\w+)">.*?</span> (\w+)</span> (\w+)', _page(name), re.DOTALL)
    assert all(style == word for style, word, _ in found)
    return [(word, begins) for _, word, begins in found]


def test_findings_come_first_with_a_mark_each() -> None:
    text = _page("changed")
    assert text.index('id="findings"') < text.index("<nav") < text.index('id="phases"') < text.index('id="measured"')
    assert _marks("changed")[0] == ("bad", "The")
    assert _marks("over_time")[0][0] == "look"  # a few in a hundred failed
    assert _marks("offloaded")[0][0] == "good"
    assert _marks("failing")[0][0] == "bad"
    assert _marks("nothing") == [("look", "No")]


def test_commands_in_a_sentence_are_code_and_what_a_target_chose_is_not_markup() -> None:
    assert sentence("Type `ssllatency top`, or <b>`x`</b>.") == (
        "Type <code>ssllatency top</code>, or &lt;b&gt;<code>x</code>&lt;/b&gt;."
    )
    assert sentence("a ` b") == "a ` b"
    assert "<script" not in sentence(f"`{HOSTILE}`")


def test_a_change_that_is_not_sure_is_looked_at() -> None:
    def marked(verdict: Verdict, low: float, high: float) -> FindingMark:
        change = Change(2e6, 2.4e6, 1.2, low, high, 0.03, verdict)
        compared = Comparison(busy(), busy(), (SubjectComparison(WALL, {Quantity.MEAN: change}),), (), 5)
        return findings(compared)[0].mark

    assert marked(Verdict.SLOWER, 1.1, 1.3) is FindingMark.BAD
    assert marked(Verdict.FASTER, 0.7, 0.9) is FindingMark.GOOD
    assert marked(Verdict.NOISE, 0.9, 1.3) is FindingMark.GOOD
    assert marked(Verdict.NOISE, 1.1, 1.3) is FindingMark.LOOK
    assert marked(Verdict.UNKNOWN, 0.9, 1.3) is FindingMark.LOOK
