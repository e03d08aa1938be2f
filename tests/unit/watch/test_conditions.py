# SPDX-License-Identifier: Apache-2.0
"""Conditions: how they are read, what is said of what isn't one, and when they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import calls_of, interval_of

from ssllatency.accept_queue import AcceptQueue
from ssllatency.model.handshakes import FREED, LEFT, NO, YES, Ending, Label, Part
from ssllatency.model.sampling import Sampling
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.stacks.rustls.operations import AGREE
from ssllatency.watch.condition import Condition, Recent, Threshold
from ssllatency.watch.fail_if import FailIf
from ssllatency.watch.grammar import ConditionError, parse
from ssllatency.watch.metrics import Metric, Unit, figure_of, function_subjects, handshake_subjects, subject_of

SUBJECTS = handshake_subjects() | function_subjects()
MS = 1_000_000


def read(text: str) -> Condition:
    return parse(text, SUBJECTS)


def shown(condition: Condition) -> list[list[str]]:
    return [[comparison.text for comparison in chain] for chain in condition.alternatives]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("handshake p99 > 50ms for 10s", [["handshake p99 > 50.0 ms for 10 s"]]),
        ("handshakes p99.9>=1.5s", [["handshake p999 >= 1.50 s"]]),
        ("failure > 5%", [["failure share > 5.0 %"]]),
        ("failed share > 0.05", [["failure share > 5.0 %"]]),
        ("resumed < 20 % for 1m30s", [["resumed share < 20 % for 90 s"]]),
        ("handshake rate <= 100 /s", [["handshake rate <= 100/s"]]),
        ("handshake count > 100", [["handshake count > 100"]]),
        ("private_key mean > 1 ms for 10 s", [["private key mean > 1.00 ms for 10 s"]]),
        ("wait peer share > 90%", [["wait peer share > 90 %"]]),
        (
            "wait peer or server p99 > 1s or wait peer p99 > 2s",
            [["wait peer or server p99 > 1.00 s"], ["wait peer p99 > 2.00 s"]],
        ),
        ("SSL_read failure > 1% or SSL_read p50 > 1us", [["SSL_read failure share > 1.0 %"], ["SSL_read p50 > 1.00 us"]]),
        ("on cpu p10 > 1ms", [["on cpu p10 > 1.00 ms"]]),
        (
            "failure > 5% and handshake rate > 10/s for 30s and rest max > 1s or abandoned count > 9",
            [
                ["failure share > 5.0 % for 30 s", "handshake rate > 10.0/s for 30 s", "rest max > 1.00 s"],
                ["abandoned count > 9"],
            ],
        ),
        ("\tfailure\n> 5%", [["failure share > 5.0 %"]]),
    ],
)
def test_a_condition_is_read(text: str, expected: list[list[str]]) -> None:
    assert shown(read(text)) == expected


@pytest.mark.parametrize(
    ("text", "sentence", "place"),
    [
        ("handshak p99 > 1ms", "handshak isn't a measure: did you mean handshake?:", "handshak"),
        ("handshake p9 > 1ms", "handshake has no p9: did you mean p99?", "p9"),
        ("handshake > 50ms", "name a figure of handshake: p50, p90, p99, p999, mean, min, max, rate, count:", ">"),
        ("handshake p99 > 50", "p99 is a time with its unit, such as 50ms:", "50"),
        ("failure share > 5", "share is a percentage, such as 5%:", "5"),
        ("handshake count > 1.5", "count is a whole number, such as 100:", "1.5"),
        ("handshake rate > fast", "expected a number a second, such as 100/s:", "fast"),
        ("handshake p99 50ms", "expected one of >=, <=, >, <:", "50ms"),
        ("handshake p99 = 50ms", "expected one of >=, <=, >, <:", "="),
        ("(handshake p99 > 50ms)", "expected a measure:", "("),
        ("failure > 5% or (rest p50 > 1ms)", "expected a measure:", "("),
        ("failure > 5% )", "there are no parentheses", ")"),
        ("failure > 5% fro 10s", "expected `and`, `or` or `for`, or the end:", "fro"),
        ("failure > 5% for", "expected a time from 1s to 10m:", ""),
        ("failure > 5% for 100ms", "expected a time from 1s to 10m:", "100ms"),
        ("failure > 5% for 11m", "expected a time from 1s to 10m:", "11m"),
        ("failure > 5% and", "expected a measure:", ""),
        ("wait peers p50 > 3ms", "wait isn't a measure: did you mean wait peer?:", "wait"),
        ("SSL_reed p50 > 3ms", "SSL_reed isn't a measure: did you mean SSL_read?:", "SSL_reed"),
        ("", "expected a measure:", ""),
        (" or ".join(["failure > 5%"] * 17), "a condition has at most 16 comparisons:", "failure"),
    ],
)
def test_the_place_of_an_error_is_shown(text: str, sentence: str, place: str) -> None:
    with pytest.raises(ConditionError) as caught:
        read(text)
    assert str(caught.value).startswith(sentence)
    assert caught.value.status == 2
    line, marks = caught.value.excerpt
    start = marks.index("^")
    assert line[start : start + len(marks.strip())] == place
    assert line.strip() == text.strip()


def test_what_is_shown_of_an_error_steers_no_terminal() -> None:
    with pytest.raises(ConditionError) as caught:
        read("handshake p99 > \x1b[2J caf\u00e9\u202e")
    assert all(line.isascii() and line.isprintable() for line in caught.value.excerpt)
    with pytest.raises(ConditionError, match="at most 1000 characters"):
        read("x" * 1001)


def test_of_a_whole_run_nothing_is_for_a_time() -> None:
    with pytest.raises(ConditionError, match="there is no `for` here"):
        parse("failure > 5% for 10s", SUBJECTS, over=False)
    with pytest.raises(ConditionError, match="handshake isn't a measure"):
        parse("handshake p99 > 5ms", function_subjects(), over=False)


WORDS = [
    "handshake",
    "failure",
    "wait",
    "peer",
    "p99",
    "share",
    ">",
    "<=",
    "50ms",
    "5%",
    "for",
    "10s",
    "and",
    "or",
    "(",
    "1",
    "%",
    "ms",
]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_any_text_is_a_condition_or_refused_at_a_place(text: str) -> None:
    try:
        condition = read(text)
    except ConditionError as error:
        line, marks = error.excerpt
        assert line.isprintable()
        assert set(marks) == {" ", "^"}
        assert len(marks) <= len(line) + 1
        return
    assert condition.comparisons
    assert all(comparison.limit >= 0 for comparison in condition.comparisons)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Threshold]:
    """A comparison, and how it may be written."""
    subject = SUBJECTS[draw(st.sampled_from(sorted(SUBJECTS)))]
    figure = figure_of(subject, draw(st.sampled_from(subject.figures)))
    assert figure
    number = draw(st.integers(0, 100))
    written = {Unit.TIME: f"{number}ms", Unit.SHARE: f"{number}%", Unit.RATE: f"{number}/s", Unit.COUNT: str(number)}
    limit = {Unit.TIME: number * MS, Unit.SHARE: number / 100, Unit.RATE: number, Unit.COUNT: number}
    over_s, sign = draw(st.one_of(st.none(), st.integers(1, 600))), draw(st.sampled_from([">", ">=", "<", "<="]))
    name = draw(st.sampled_from([subject.name, subject.name.replace(" ", "_")])) if "SSL" not in subject.name else subject.name
    name = name if subject_of(SUBJECTS, name.replace("_", " ")) else subject.name
    text = f"{name} {figure.name} {sign} {written[figure.unit]}{f' for {over_s}s' if over_s else ''}"
    return text, Threshold(Metric(subject, figure), sign, limit[figure.unit], over_s)


@given(st.lists(comparisons(), min_size=1, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_what_is_written_is_read(parts: list[tuple[str, Threshold]], joins: list[bool]) -> None:
    text = parts[0][0]
    for (written, _), joined in zip(parts[1:], joins, strict=False):
        text += f" {'and' if joined else 'or'} {written}"
    condition = read(text)
    flat = [comparison for chain in condition.alternatives for comparison in chain]
    assert [len(chain) for chain in condition.alternatives] == chains(joins[: len(parts) - 1])
    for found, (_, made) in zip(flat, parts, strict=True):
        assert (found.metric.name, found.operator, found.limit) == (made.metric.name, made.operator, pytest.approx(made.limit))
        assert made.over_s in (None, found.over_s)


def chains(joins: list[bool]) -> list[int]:
    """How many comparisons each chain has."""
    lengths = [1]
    for joined in joins:
        if joined:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


# --- when it holds


def shakes(wall_ms: float, number: int, ending: Ending = Ending.SUCCESS, resumed: str = NO) -> list[Shake]:
    times = {Part.REST: round(wall_ms * MS / 4), Part.WAIT_PEER: round(wall_ms * MS * 3 / 4)}
    return [Shake(times, {Label.RESUMED: resumed}, ending)] * number


def holds(text: str, *intervals: Snapshot) -> list[bool]:
    recent = Recent(read(text))
    return [bool(recent.take(interval)) for interval in intervals]


FAST, SLOW, NONE = (interval_of(0, shakes(*what)) for what in ((1, 90), (80, 30), (1, 0)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("handshake p99 > 50ms", [False, True, False, False]),
        ("handshake p50 > 50ms for 2s", [False, False, True, False]),  # 90 fast ones outweigh 30 slow ones
        ("handshake p90 > 50ms for 2s", [False, True, True, False]),
        ("handshake p90 > 50ms for 3s", [False, False, True, True]),  # not before so much has been seen
        ("handshake p99 < 50ms", [True, False, False, True]),  # nothing is above or below where nothing was counted
        ("handshake rate >= 40 for 3s", [False, False, True, True]),
        ("handshake rate < 1", [False, False, True, False]),
        ("handshake mean > 20ms and handshake count > 100 for 2s", [False, True, False, False]),
        ("handshake max > 60ms or handshake count > 80", [True, True, False, True]),
        ("wait peer p99 > 50ms", [False, True, False, False]),
        ("wait peer share > 70%", [True, True, False, True]),
        ("wait offload share > 0%", [False, False, False, False]),
    ],
)
def test_it_holds_of_the_last_seconds(text: str, expected: list[bool]) -> None:
    assert holds(text, FAST, SLOW, NONE, FAST) == expected


def test_the_queue_of_an_offload_is_a_subject() -> None:
    done = {Part.COMPLETION: 6 * MS, Part.WAIT_OFFLOAD: 6 * MS}
    waits = {**done, Part.QUEUE_OFFLOAD: 2 * MS, Part.QUEUE_SERVER: 2 * MS, Part.REST: 2 * MS}
    interval = interval_of(0, [Shake(waits, {}, Ending.SUCCESS)] * 20)
    for text, expected in (
        ("queue offload share >= 20%", True),
        ("queue offload share > 20%", False),
        ("queue share >= 20%", True),
        ("queue max > 2ms", False),
        ("wait offload share > 60%", False),
    ):
        assert holds(text, interval) == [expected], text


def test_what_clients_wait_is_a_subject() -> None:
    interval = interval_of(0, [Shake({Part.QUEUE_START: 280 * MS, Part.REST: 3 * MS}, {}, Ending.SUCCESS)] * 20)
    for text, expected in (
        ("client wait p50 > 270ms", True),
        ("client wait p99 > 300ms", False),
        ("handshake p99 > 10ms", False),  # that is the wall time
    ):
        assert holds(text, interval) == [expected], text


def test_the_queue_before_the_first_call_is_part_of_what_clients_wait() -> None:
    queued = {Part.QUEUE_START: 6 * MS, Part.QUEUE_SERVER: 1 * MS, Part.QUEUE_OTHER: 5 * MS, Part.REST: 3 * MS}
    interval = interval_of(0, [Shake(queued, {}, Ending.SUCCESS)] * 20)
    for text, expected in (
        ("queue share >= 70%", True),  # 7 of 10 ms
        ("queue share > 70%", False),
        ("queue other share >= 50%", True),
        ("queue server share >= 25%", True),  # 1 of the 4 ms since the first call
        ("queue p99 > 20ms", False),
        ("queue p50 > 6ms and queue start p50 < 6.5ms", True),
    ):
        assert holds(text, interval) == [expected], text


def test_shares_of_handshakes() -> None:
    mixed = interval_of(
        0, [*shakes(1, 60), *shakes(1, 20, resumed=YES), *shakes(1, 15, Ending.FAILURE), *shakes(1, 5, Ending.ABANDONED)]
    )
    for text, expected in (
        ("failure >= 15%", True),
        ("failure > 15%", False),
        ("abandoned share >= 5%", True),
        ("resumed <= 25%", True),
        ("resumed share < 25%", False),
        ("failure rate > 14/s and resumed count > 19", True),
        ("handshake count >= 100 and handshake rate >= 100", True),
    ):
        assert holds(text, mixed) == [expected], text


def test_peers_that_left() -> None:
    """Those that the library was told of, and those that a server freed after its peer had left."""
    gone = shakes(1, 1, Ending.ABANDONED)[0]
    freed = [replace(gone, reason=FREED, peer_left=left) for left in (True, True, True, False, None)]
    reset = [replace(gone, reason=LEFT)] * 2
    mixed = interval_of(0, [*shakes(1, 90), *shakes(1, 3, Ending.FAILURE), *freed, *reset])
    for text, expected in (
        ("peer left >= 5%", True),
        ("peer left > 5%", False),
        ("peer_left count >= 5 and peer left rate >= 5/s", True),
        ("abandoned count >= 7", True),
    ):
        assert holds(text, mixed) == [expected], text


def test_connections_without_room() -> None:
    """Not known is not none."""
    handshakes = handshakes_of(shakes(1, 10))
    found = replace(handshakes, accept_queues=(AcceptQueue(443, "::", 511, 4), AcceptQueue(80, "::", 511, 3)))
    for text, expected in (("overflows count >= 7", True), ("overflows count > 7", False), ("overflows rate > 1/s", True)):
        assert holds(text, replace(interval_of(0, []), handshakes=found)) == [expected], text
        assert holds(text, replace(interval_of(0, []), handshakes=handshakes)) == [False], text


def test_calls_of_functions() -> None:
    series = [
        calls_of("SSL_read", [5 * MS] * 50),
        calls_of("SSL_read", [5 * MS] * 50, pid=18),
        calls_of("SSL_read", [MS] * 25, Outcome.FAILURE),
        calls_of("SSL_read", [MS] * 75, Outcome.RETRY),
        calls_of("SSL_read", [MS] * 800, Outcome.CLOSED),
    ]
    interval = interval_of(0, [], series)
    for text, expected in (
        ("SSL_read count >= 100 and SSL_read count <= 100", True),
        ("SSL_read p50 > 4ms and SSL_read min > 4ms", True),
        ("SSL_read failure >= 20% and SSL_read failure <= 20%", True),
        ("SSL_read retry share >= 37.5% and SSL_read retry <= 0.375", True),
        ("SSL_read failure rate > 25", False),
        ("SSL_write p50 < 1h", False),
    ):
        assert holds(text, interval) == [expected], text
    windows = replace(interval, sampling=(sampled("SSL_read"),))
    assert holds("SSL_read count >= 1 or SSL_read rate >= 1 or SSL_read failure >= 0%", windows) == [False]


def test_calls_of_unknown_outcome_count_and_none_is_said_to_have_failed() -> None:
    interval = interval_of(0, [], [calls_of(AGREE, [5 * MS] * 50, Outcome.UNKNOWN)])
    assert holds(f"{AGREE} p50 > 4ms and {AGREE} count >= 50", interval) == [True]
    assert subject_of(SUBJECTS, f"{AGREE} failure") is None
    assert subject_of(SUBJECTS, f"{AGREE} retry") is None


def sampled(function: str) -> Sampling:
    sampling = Sampling.__new__(Sampling)
    object.__setattr__(sampling, "functions", (function,))
    return sampling


def test_what_is_beyond_the_histogram_is_beyond_any_limit_in_it() -> None:
    """A percentile isn't known exactly there, but it is known to be long, or short."""
    hour = interval_of(0, [Shake({Part.REST: 3600 * 1000 * MS})] * 3)
    hidden = replace(hour, handshakes=None)
    assert holds("handshake p50 > 1m", hour) == [True]
    assert holds("handshake p50 < 1m or handshake p50 > 1m", hidden) == [False]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("handshake p99 > 50ms", 3, "--fail-if holds: handshake p99 was 79.3 ms (> 50.0 ms)."),
        ("handshake count > 120 or handshake p99 > 1s", 0, ""),
        ("handshake count >= 120", 3, "--fail-if holds: handshake count was 120 (>= 120)."),
        ("private key p99 > 1ms", 0, "--fail-if doesn't hold, but private key p99 isn't known (> 1.00 ms)."),
    ],
)
def test_a_run_fails_by_its_intervals_together(capsys: pytest.CaptureFixture[str], text: str, status: int, said: str) -> None:
    fail_if = FailIf(parse(text, SUBJECTS, over=False))
    for interval in (FAST, SLOW, NONE):
        fail_if.take(interval)
    assert fail_if.status() == status
    assert capsys.readouterr().err == (f"ssllatency: {said}\n" if said else "")


def test_without_a_condition_nothing_fails() -> None:
    fail_if = FailIf(None)
    fail_if.take(SLOW)
    assert fail_if.status() == 0


@pytest.mark.parametrize(
    ("text", "needs"),
    [("handshake p99 > 5ms and failure > 5%", False), ("handshake p99 > 5ms or SSL_read failure > 5%", True)],
)
def test_what_can_be_told_from_handshakes_alone(text: str, needs: bool) -> None:
    assert parse(text, SUBJECTS).needs_functions is needs
