# SPDX-License-Identifier: Apache-2.0
"""The report of handshakes: golden reports whole, and the rules that no golden report shows alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.handshake_samples import GOLDEN, REPORTS, SAMPLES, distant, near, offloaded
from tests.unit.reports.report_samples import busy, snapshot_of

from ssllatency.model.handshakes import (
    NO,
    PHASES,
    WAITS,
    YES,
    Ending,
    Fact,
    Label,
    Part,
    Single,
)
from ssllatency.model.offload import Batches, Offload
from ssllatency.reports.documents.document import from_json, to_json
from ssllatency.reports.rows.parts import part_rows
from ssllatency.reports.text.bars import count_bar, legend, split_bar
from ssllatency.reports.text.handshakes.endings import single_lines
from ssllatency.reports.text.handshakes.report import render
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import share

UNICODE = Page(unicode=True)


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name: str) -> None:
    assert REPORTS[name]() == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_report_is_made() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(REPORTS)


@pytest.mark.parametrize("name", REPORTS)
def test_printable_without_trailing_blanks_and_as_wide_as_the_page(name: str) -> None:
    report = REPORTS[name]()
    assert report.isascii() == (not name.endswith("_80") or name in ("idle_80",))
    assert report.endswith("\n")
    assert not report.endswith("\n\n")
    width = 80 if name.endswith("_80") else 100
    assert all(line.isprintable() and line == line.rstrip() and len(line) <= width for line in report.split("\n"))


@pytest.mark.parametrize("name", SAMPLES)
def test_kept_measurement_renders_the_same(name: str) -> None:
    assert render(from_json(to_json(SAMPLES[name]()))) == render(SAMPLES[name]())


def test_functions_alone_are_no_handshakes() -> None:
    assert render(busy()) == ""


_times = st.dictionaries(st.sampled_from([*PHASES, *WAITS]), st.integers(1, 2**60), min_size=1)


@given(_times, st.integers(1, 120), st.booleans())
def test_bar_has_its_cells_and_each_part_its_share_of_them(times: dict[Part, float], cells: int, unicode: bool) -> None:
    page = Page(unicode=unicode)
    bar = split_bar(times, cells, page)
    assert len(bar) == cells + 2
    whole = sum(times.values())
    for part, time in times.items():
        (entry,) = legend({part: time}, page)
        assert abs(bar[1:-1].count(entry.strip()[0]) - cells * time / whole) <= 1


def test_each_part_has_its_own_name() -> None:
    assert len(set(PARTS.values())) == len(Part)


def test_each_part_has_its_own_character_in_the_order_of_the_parts() -> None:
    times = dict.fromkeys([*PHASES, *WAITS], 1)
    assert split_bar(times, 13, PLAIN) == "|KXVSC=.q:wo-?|"
    assert split_bar({**times, Part.QUEUE_START: 1}, 14, PLAIN) == "|bKXVSC=.q:wo-?|"
    assert len(set(split_bar({**times, Part.QUEUE_START: 1}, 14, UNICODE))) == 15


def test_count_bar_shows_even_the_few() -> None:
    assert [count_bar(count, 1000, 10, PLAIN) for count in (0, 1, 500, 1000)] == ["", "@", "@@@@@", "@" * 10]
    assert count_bar(0, 0, 10, PLAIN) == ""


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (0, 0, "-"),
        (0, 9, "0 %"),
        (9, 9, "100 %"),
        (1, 10_000, "<0.1 %"),
        (9_999, 10_000, ">99 %"),
        (99, 1000, "9.9 %"),
        (9_96, 10_000, "10 %"),
        (1, 2, "50 %"),
    ],
)
def test_share(part: int, whole: int, words: str) -> None:
    assert share(part, whole) == words


def report_of(*shakes: Shake, by: tuple[Label, ...] = ()) -> str:
    return render(snapshot_of(handshakes=handshakes_of(shakes, by)))


def test_second_bar_only_where_waits_outweigh_the_calls() -> None:
    assert "Of that, in calls" in render(distant())
    assert "Of that, in calls" not in render(near())
    assert "Of that, in calls" not in report_of(Shake({Part.REST: 10, Part.WAIT_PEER: 99}))


def test_failed_handshakes_are_shown_where_none_succeeded() -> None:
    failed = Shake({Part.REST: 700}, ending=Ending.FAILURE)
    assert "Mean failed handshake: 700 ns" in report_of(failed)
    assert "Mean successful handshake: 900 ns" in report_of(failed, Shake({Part.REST: 900}))


def test_handshakes_that_took_no_time_have_no_bar() -> None:
    report = report_of(Shake({}))
    assert "Mean" not in report
    assert "  wall            1      -  0 ns  0 ns" in report


def test_mean_of_the_bar_is_of_all_handshakes_and_that_of_the_table_of_those_that_had_the_part() -> None:
    report = report_of(Shake({Part.REST: 1000, Part.SESSION_LOOKUP: 600}), Shake({Part.REST: 1000}))
    assert "session lookup 23 % (300 ns)" in report
    assert "    session lookup      1   23 %   600 ns" in report


def test_mix_shows_the_most_frequent_and_counts_the_others() -> None:
    shakes = [Shake({}, {Label.CIPHER: f"cipher-{number}"}) for number in range(9) for _ in range(9 - number)]
    report = " ".join(report_of(*shakes).split())
    assert "cipher cipher-0 20 %, cipher-1 18 %, cipher-2 16 %, " in report
    assert report.partition(" ==> ")[0].endswith("cipher-5 8.9 %, 3 others 13 %")


def test_wide_groups_have_their_labels_above() -> None:
    labels = {Label.CIPHER: "C" * 40, Label.SIGNATURE: "S" * 40}
    report = report_of(Shake({Part.REST: 5000}, labels), by=tuple(labels))
    assert f"\n  {'C' * 40}, {'S' * 40}\n        1  100 %       0     0 %  5.00 us  5.00 us  5.00 us   0 ns" in report


@pytest.mark.parametrize(("left", "undelivered", "words"), [
    (None, None, "abandoned: freed"),
    (False, False, "abandoned: freed while the peer was there"),
    (True, False, "abandoned: freed after the peer had left"),
    (True, True, "abandoned: freed after the peer had left, its last bytes not given to the library"),
])  # fmt: skip
def test_one_that_was_freed_says_whether_its_peer_had_left(left: bool | None, undelivered: bool | None, words: str) -> None:
    freed = Shake({Part.REST: 1_000}, {}, Ending.ABANDONED, reason="freed", peer_left=left, undelivered=undelivered)
    assert " ".join(report_of(freed).partition("==> ")[0].split()).endswith(words)


def site(name: str, successful: int, failed: int, resumed: int = 0) -> list[Shake]:
    """Handshakes that asked for this name; the first of the successful ones were resumed."""
    good = [
        Shake({Part.REST: 40_000, Part.WAIT_PEER: 2_000_000}, {Label.SNI: name, Label.RESUMED: YES if n < resumed else NO})
        for n in range(successful)
    ]
    return [*good, *[Shake({Part.REST: 1_000}, {Label.SNI: name}, Ending.FAILURE)] * failed]


def test_a_line_a_value_with_what_is_known_of_its_handshakes() -> None:
    dead = Shake({Part.REST: 1_000}, {}, Ending.ABANDONED)
    report = report_of(*site("a.example", 6, 2, 3), *site("b.example", 0, 1), dead, by=(Label.SNI,))
    assert [line.split() for line in report.split("Groups:\n")[1].split("\n\n")[0].splitlines()] == [
        ["SNI", "COUNT", "SHARE", "FAILED", "FAIL", "%", "ABANDONED", "RESUMED", "P50", "P99", "OWN", "WAITS"],
        ["a.example", "8", "80", "%", "2", "25", "%", "0", "50", "%", "2.04", "ms", "2.04", "ms", "40.0", "us", "2.00", "ms"],
        ["b.example", "1", "10", "%", "1", "100", "%", "0", "-", "-", "-", "-", "-"],
        ["unknown", "1", "10", "%", "0", "0", "%", "1", "-", "-", "-", "-", "-"],
    ]


def test_the_smallest_groups_are_added_up_under_other() -> None:
    shakes = [one for n in range(25) for one in site(f"{n}.example", 30 - n, 1)]
    report = report_of(*shakes, by=(Label.SNI,)).split("Groups:\n")[1].split("\n\n")[0].splitlines()
    assert len(report) == 1 + 20 + 1 + 1
    assert report[1].split()[:2] == ["0.example", "31"]
    assert report[-2].split()[:5] == ["other", str(sum(31 - n for n in range(20, 25))), "9.5", "%", "5"]
    assert report[-1] == "  other: 5 smaller groups are in it; --json and the HTML page show each."


def test_on_a_narrow_terminal_a_value_keeps_its_failures_and_its_times() -> None:
    shakes = site("a-long-name.of-a-shop.example", 6, 2, 3)
    page = Page(80, most=80)
    report = render(snapshot_of(handshakes=handshakes_of(shakes, (Label.SNI,))), page).split("Groups:\n")[1].splitlines()
    assert report[0].split() == ["SNI", "COUNT", "FAILED", "FAIL", "%", "P99", "OWN", "WAITS"]
    assert report[1].split()[1:] == ["8", "2", "25", "%", "2.04", "ms", "40.0", "us", "2.00", "ms"]


def test_unknown_key_and_most_waiting_are_said_or_left_out() -> None:
    made = handshakes_of([Shake({Part.PRIVATE_KEY: 5000}, key=("decrypt", ""))])
    report = render(snapshot_of(handshakes=replace(made, offload=Offload("", 2, None, 0, 0, 0, 0))))
    assert "decryption with an unknown key 100 % (mean 5.00 us)" in report
    assert "Offload by an unknown engine:\n  handshakes waiting for it: 2 at the end\n" in report


def test_empty_batches_are_no_batches() -> None:
    snapshot = offloaded()
    assert snapshot.handshakes is not None
    assert snapshot.handshakes.offload is not None
    offload = replace(snapshot.handshakes.offload, batches=(Batches("mbx_sm2", (0,) * 9),))
    assert "mbx" not in render(replace(snapshot, handshakes=replace(snapshot.handshakes, offload=offload)))


def single_of(times: dict[Part, int]) -> list[str]:
    one = Shake({Part.REST: 5_000_000, **times})
    return single_lines(Single(0.0, 7, 7, "nginx", Ending.SUCCESS, one.parts, {}, 2, 0), PLAIN)


def test_a_slow_one_begins_with_what_its_client_waited() -> None:
    queued = {Part.QUEUE_START: 95_000_000, Part.QUEUE_OTHER: 90_000_000, Part.WAIT_HELLO: 1_000_000}
    heading, bar, longest, *queue = single_of(queued)
    assert heading.startswith("  100 ms  1970-")
    assert bar.count("b") == 38
    assert longest == "    before: queue 95.0 ms, rest 5.00 ms"
    assert " ".join(" ".join(queue).split()) == (
        "before: queue 95.0 ms, wall 5.00 ms; queue 95.0 ms (in other work 90.0 ms); before: ClientHello 1.00 ms"
    )


def test_of_a_slow_one_what_is_not_known_is_not_said() -> None:
    assert len(single_of({})) == 3
    assert single_of({Part.QUEUE_SERVER: 2_000_000})[-1] == "    queue 2.00 ms"
    assert single_of({Part.WAIT_HELLO: 2_000_000})[-1] == "    before: ClientHello 2.00 ms"


NETWORK = {Fact.SOCKET: 2, Fact.FLIGHTS: 3, Fact.FLIGHT_BYTES: 28_400, Fact.HELLO_RETRY_KNOWN: 4}


def facts_of(facts: dict[Fact, int], times: dict[Part, int] | None = None, *others: Shake) -> str:
    report = " ".join(report_of(Shake({Part.REST: 1, **(times or {})}, facts=facts), *others).split())
    _, found, words = report.partition("Network and resumption: ")
    return words.partition(". ")[0].removesuffix(".") if found else ""


def test_what_is_known_of_the_network_is_one_sentence() -> None:
    assert facts_of({}) == facts_of({}, {Part.SESSION_LOOKUP: 9}) == facts_of({Fact.HELLO_RETRY_KNOWN: 1}) == ""
    network = "1.5 flights of the peer per handshake were waited for; the largest flight sent was 14.2 kB on average"
    assert facts_of(NETWORK) == network
    more = {Fact.UNSENT: 1, Fact.HELLO_RETRIES: 1, Fact.RETRANSMITTED: 1, Fact.RETRANSMISSIONS: 1}
    assert facts_of({**NETWORK, **more}) == (
        "1.5 flights of the peer per handshake were waited for; 25 % needed a HelloRetryRequest; the largest flight sent was"
        " 14.2 kB on average, in 50 % larger than the congestion window; 50 % had losses (1 segment sent again)"
    )
    assert "50 % had losses" in facts_of({**NETWORK, Fact.RETRANSMITTED: 1})
    assert "sent again" not in facts_of({**NETWORK, Fact.RETRANSMITTED: 1})
    assert facts_of({Fact.SOCKET: 1}, None, Shake({})) == "the socket is known in 50 %"


def test_retries_of_quic_are_told_with_how_many_they_are_of() -> None:
    known = {Fact.QUIC_RETRY_KNOWN: 1}
    assert facts_of(known) == ""
    assert facts_of({**known, Fact.QUIC_RETRIES: 1}, None, *[Shake({}, facts=known)] * 2) == (
        "of 3 handshakes over QUIC 1 had the client's address validated by a Retry: a round trip before, in none of these times"
    )


def test_what_became_of_offered_sessions() -> None:
    offered = {Fact.OFFERED: 1}
    assert facts_of({Fact.SOCKET: 1}, {Part.SESSION_LOOKUP: 9}) == ""  # what was looked for may have been made up
    assert facts_of(offered) == "a session was offered in 100 %"
    assert facts_of({**offered, Fact.TICKETS_REFUSED: 1}, None, Shake({})) == (
        "a session was offered in 50 %, a ticket refused in 50 %"
    )
    assert facts_of({**offered, Fact.CACHE_MISSES: 1}).endswith(", a session not found in the cache in 100 %")


def test_peers_that_left_are_told_of_failures_as_well() -> None:
    left = Shake({}, ending=Ending.FAILURE, facts={Fact.SOCKET: 1, Fact.GONE: 1})
    assert facts_of({Fact.SOCKET: 1}, None, left) == "50 % of all went on though their peer had left"


def test_of_a_slow_one_what_explains_it_is_told_where_it_is_much() -> None:
    assert "without a processor" not in "".join(single_of({Part.OFF_CPU_RUNNABLE: 400_000}))
    held = "".join(single_of({Part.OFF_CPU_RUNNABLE: 1_000_000, Part.OFF_CPU_THROTTLED: 900_000}))
    assert "in calls without a processor 1.00 ms, of that held by a CPU quota 900 us" in held
    words = [line.strip() for line in single_of({Part.OFF_CPU_RUNNABLE: 1_000_000, Part.REST_ASLEEP: 2_000_000})]
    assert words[-1] == "in calls without a processor 1.00 ms, asleep in the rest 2.00 ms"
    lossy = {Part.WAIT_PEER: 200_000_000, Part.LOSSES: 190_000_000, Part.GONE: 4_000_000}
    assert single_of(lossy)[-1].strip() == "waits with losses 190 ms"


def test_a_quota_in_calls_stands_below_what_it_is_a_part_of() -> None:
    times = {Part.REST: 9_000, Part.OFF_CPU: 5_000, Part.OFF_CPU_RUNNABLE: 4_000, Part.OFF_CPU_THROTTLED: 3_000}
    rows = [(row.part, row.depth) for row in part_rows(handshakes_of([Shake(times)]).groups[0])]
    assert rows[-3:] == [(Part.OFF_CPU, 2), (Part.OFF_CPU_RUNNABLE, 3), (Part.OFF_CPU_THROTTLED, 4)]


def test_number_and_unit_stay_together() -> None:
    assert all(not line.lstrip().startswith(("%", "ms", "us")) for line in REPORTS["distant_80"]().split("\n"))


def test_a_queue_before_the_first_call_is_in_the_first_figures_of_any_version() -> None:
    handshakes = handshakes_of([Shake({Part.REST: 20_000_000, Part.QUEUE_START: 280_000_000})])
    old = {part: times for part, times in handshakes.groups[0].parts.items() if part is not Part.CLIENT_WAIT}
    for parts in (handshakes.groups[0].parts, old):
        text = render(snapshot_of(handshakes=replace(handshakes, groups=(replace(handshakes.groups[0], parts=parts),))))
        assert "Mean successful handshake: 300 ms for its client, 20.0 ms from the first call\n  |bbbbb" in text
        assert "b before: queue 93 % (280 ms)" in text
        assert ("client's wait" in text) is (Part.CLIENT_WAIT in parts)
