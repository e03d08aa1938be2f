# SPDX-License-Identifier: Apache-2.0
"""The file of a recording: written and read again, cut anywhere, and broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.measured.recordings import recording_of

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording, Run
from ssllatency.reports.documents import document
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.documents.recording_reading import from_text

ABOUT = {"version": "1.2", "command": "ssllatency record -p 1 -o x", "interval_s": 1.0}
Line = dict[str, Any]


def kept(intervals: int = 3) -> Recording:
    """As a file keeps it, functions added up over processes."""
    made = recording_of(1, intervals, each=10)
    runs = (Run(made.intervals, notes=("A note.",), **ABOUT),)  # type: ignore[arg-type]
    return from_text("".join(to_lines(Recording(runs))), "web1.jsonl")


TEXT = "".join(to_lines(kept()))


def test_read_again_it_is_the_same() -> None:
    recording = kept()
    assert recording.label == "web1.jsonl"
    run = recording.runs[0]
    assert (run.version, run.command, run.interval_s, run.notes) == (*ABOUT.values(), ("A note.",))
    assert from_text("".join(to_lines(recording, by_process=True)), "web1.jsonl") == recording
    made = recording_of(1, 3, each=10)
    assert from_text("".join(to_lines(made, by_process=True)), made.label) == made


def test_several_runs_stay_apart() -> None:
    runs = tuple(run for recording in (kept(2), recording_of(2, 3, host="web2")) for run in recording.runs)
    read = from_text("".join(to_lines(Recording(runs), by_process=True)), "")
    assert read.runs == runs


def test_each_line_is_a_document_of_its_own() -> None:
    lines = TEXT.splitlines()
    for number, line in enumerate(lines[1:-1], 1):
        fields = json.loads(line)
        assert (fields["run"], fields["interval"]) == (0, number)
        assert document.from_document(fields) == kept().intervals[number - 1]
    assert json.loads(lines[-1]) == {"end": {"intervals": 3}}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(TEXT)))
@pytest.mark.slow
def test_cut_anywhere_it_lacks_at_most_the_interval_that_was_being_written(length: int) -> None:
    text, whole = TEXT[:length], kept()
    written = max(0, TEXT[: length + 1].count("\n") - 1)  # lines of intervals that were written whole, but for the newline
    if not written:
        with pytest.raises(SsllatencyError):
            from_text(text, "x")
        return
    read = from_text(text, "web1.jsonl")
    assert written - 1 <= len(read.intervals) <= written
    assert read.intervals == whole.intervals[: len(read.intervals)]
    assert read.runs[0].notes[0] == "A note."
    cut_short = [note for note in read.total().notes if "cut short" in note]
    assert bool(cut_short) == (length < len(TEXT) - 1)


def test_every_end_of_a_line_and_the_byte_before() -> None:
    """The places where one off is easily made."""
    ends = [position + 1 for position, character in enumerate(TEXT) if character == "\n"]
    read = [len(from_text(TEXT[: end + by], "x").intervals) for end in ends[1:] for by in (-1, 0)]
    assert read == [1, 1, 2, 2, 3, 3, 3, 3]


def test_what_a_crash_leaves_behind_the_last_line_is_left_out() -> None:
    whole_lines = TEXT.splitlines(keepends=True)[:3]
    for torn in ("\0" * 4096, '{"run": 0, "inter', "\ufffd"):
        read = from_text("".join(whole_lines) + torn, "x")
        assert len(read.intervals) == 2
        assert "The recording was cut short: what came after interval 2 of web1 isn't in it." in read.total().notes


def changed(number: int, change: Callable[[Line], object]) -> str:
    """The file with a line changed."""
    lines = TEXT.splitlines()
    fields = json.loads(lines[number - 1])
    change(fields)
    lines[number - 1] = json.dumps(fields)
    return "".join(f"{line}\n" for line in lines)


def without(number: int) -> str:
    lines = TEXT.splitlines(keepends=True)
    return "".join(lines[: number - 1] + lines[number:])


BROKEN = {
    "a function": (changed(3, lambda line: line["functions"][0].update(count=1)), "line 3", "functions[0].count must be"),
    "a time": (changed(2, lambda line: line.update(started="today")), "line 2", "started must be a time"),
    "no JSON": (TEXT.replace("\n", "\nx", 1), "line 2", "the document must be an object"),
    "an interval too few": (without(3), "line 3", "interval must be 2"),
    "an interval twice": (changed(3, lambda line: line.update(interval=1)), "line 3", "interval must be 2"),
    "a run that isn't there": (changed(3, lambda line: line.update(run=1)), "line 3", "run must be the number of a run"),
    "an end too soon": (changed(5, lambda line: line["end"].update(intervals=4)), "line 5", "end.intervals must be 3"),
    "something after the end": (TEXT + TEXT.splitlines()[1] + "\n", "line 6", "the recording has ended before it"),
    "no runs": (changed(1, lambda line: line.pop("runs")), "line 1", "runs must be there"),
    "a version that's no text": (
        changed(1, lambda line: line["runs"][0].update(version=1)),
        "line 1",
        "runs[0].version must be",
    ),
}


@pytest.mark.parametrize(("text", "line", "words"), BROKEN.values(), ids=list(BROKEN))
def test_what_is_broken_is_refused_by_its_line(text: str, line: str, words: str) -> None:
    with pytest.raises(SsllatencyError) as caught:
        from_text(text, "web1.jsonl")
    sentence = str(caught.value)
    assert sentence.startswith(f"web1.jsonl, {line}: this is not a measurement that ssllatency can read: ")
    assert words in sentence
    assert sentence.count(". ") == 0


def _miscounted(line: Line) -> None:
    """As a row of the kernel's reads while a handshake is being counted: its sums don't add up."""
    line["handshakes"]["groups"][0]["parts"]["calls"]["total_ns"] += 5


def _mistimed(line: Line) -> None:
    rest = line["handshakes"]["groups"][0]["parts"]["rest"]
    rest["exponential"]["underflow"] += 1
    rest["count"] += 1


def test_an_interval_whose_sums_do_not_add_up_is_left_out_and_said_to_be() -> None:
    whole = kept()
    for broken, why in ((_miscounted, "times of which wall is the sum of calls and the waits"), (_mistimed, "that of wall")):
        read = from_text(changed(3, broken), "web1.jsonl")
        assert read.intervals == (whole.intervals[0], whole.intervals[2])
        first, note = read.runs[0].notes
        assert first == "A note."
        assert note.startswith("1 interval was left out: line 3: handshakes.groups[0].parts")
        assert why in note
        assert note in read.total().notes
        assert from_text("".join(to_lines(read, by_process=True)), "web1.jsonl") == read


def test_of_several_intervals_that_are_left_out_all_lines_are_told() -> None:
    lines = "".join(to_lines(kept(6))).splitlines()
    for number in (1, 3, 4):
        fields = json.loads(lines[number])
        _miscounted(fields)
        lines[number] = json.dumps(fields)
    note = from_text("\n".join(lines) + "\n", "x").runs[0].notes[-1]
    assert note.startswith("3 intervals were left out: lines 2, 4-5; in the first, handshakes.groups[0].parts must be times")


def test_intervals_left_out_of_a_run_that_has_no_other_are_told_of_by_the_last() -> None:
    runs = (*kept(1).runs, *recording_of(2, 1, host="web2").runs)
    lines = "".join(to_lines(Recording(runs))).splitlines()
    fields = json.loads(lines[1])
    _miscounted(fields)
    read = from_text("\n".join([lines[0], json.dumps(fields), *lines[2:], ""]), "x")
    assert read.hosts == ("web2",)
    assert read.total().notes[0].startswith("1 interval was left out: line 2: ")


def test_a_recording_without_any_good_interval_is_refused_by_its_first_line() -> None:
    alone = "".join(to_lines(kept(1)))
    lines = alone.splitlines()
    fields = json.loads(lines[1])
    _miscounted(fields)
    for text in ("\n".join([lines[0], json.dumps(fields), lines[2], ""]), json.dumps(fields), f"{json.dumps(fields)}\n" * 2):
        with pytest.raises(SsllatencyError, match=r"his is not a measurement .* must be times of which wall is the sum"):
            from_text(text, "x")


def test_a_document_among_others_whose_sums_do_not_add_up_is_left_out() -> None:
    documents = [document.to_document(interval) for interval in kept().intervals]
    _miscounted(documents[1])
    read = from_text("".join(f"{json.dumps(one)}\n" for one in documents), "x")
    assert read.intervals == (kept().intervals[0], kept().intervals[2])
    assert read.runs[0].notes[0].startswith("1 interval was left out: line 2: ")


@pytest.mark.parametrize("text", ["", "\n", "x", "[]", "{}", "[[" * 10**5, TEXT.splitlines()[0], TEXT[:100]])
def test_what_is_no_recording_is_refused(text: str) -> None:
    with pytest.raises(SsllatencyError):
        from_text(text, "x")


def test_one_document_is_one_interval() -> None:
    interval = kept().intervals[0]
    for indent in (None, 2):
        assert from_text(document.to_json(interval, indent=indent), "x") == Recording.of([interval], "x")


def test_documents_a_line_are_intervals_by_host() -> None:
    one, other = kept().intervals, [replace(interval, host="web2") for interval in kept(2).intervals]
    single = json.dumps({"schema": "ssllatency/1", "handshake": {}})
    lines = [document.to_json(one[0]), single, document.to_json(other[0]), document.to_json(one[1]), document.to_json(other[1])]
    read = from_text("\n".join(lines) + "\n", "x")
    assert [run.intervals for run in read.runs] == [one[:2], tuple(other)]
    torn = from_text("\n".join([*lines, lines[0][:50]]), "x")
    assert [run.intervals for run in torn.runs] == [one[:2], tuple(other)]
    assert "cut short" in torn.total().notes[-1]


def test_a_bad_document_among_them_is_refused_by_its_line() -> None:
    good = document.to_json(kept().intervals[0])
    with pytest.raises(SsllatencyError, match=r"^x, line 2: this is not a measurement .*: schema must be"):
        from_text(f'{good}\n{{"schema": "ssllatency/2"}}\n', "x")
