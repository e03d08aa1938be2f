# SPDX-License-Identifier: Apache-2.0
"""Single handshakes as lines: what clients waited, by whose time it was. On a terminal of 80 columns every line fits, and
nothing is said that isn't known."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.measured.handshakes import Shake

from ssllatency.model.handshakes import WAITS, Ending, Label, Part, Single
from ssllatency.reports.text.handshakes.lines import HandshakeLines
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import DOMINANT, END, FAILURE
from ssllatency.reports.words.owners import owned

NARROW, MIDDLE, WIDE, FILE = Page(80, most=80), Page(100, most=130), Page(100, most=250), Page()
MS = 1_000_000
QUEUED = {Part.QUEUE_START: 20 * MS, Part.QUEUE_SERVER: 10 * MS, Part.QUEUE_ASLEEP: 29 * MS, Part.QUEUE_OTHER: MS}
WORK = {Part.PRIVATE_KEY: 2 * MS, Part.REST: MS}
UNSURE = {Part.WAIT_PEER_OR_SERVER: 4 * MS}
PAUSED = {
    Part.WAIT_OFFLOAD: 3 * MS,
    Part.COMPLETION: 2 * MS,
    Part.QUEUE_SERVER: 6 * MS,
    Part.QUEUE_OFFLOAD: 6 * MS,
    Part.QUEUE_OTHER: 5 * MS,
    Part.REST: MS,
}
REASON = ("no shared cipher", "handshake failure", "SSLv3/TLS read client hello")
HOSTILE = "x\x1b[2J\u00e9\n\ue000"


@pytest.fixture(autouse=True)
def five_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-05:30")
        time.tzset()
        yield
    time.tzset()


def single(times: dict[Part, int], ending: Ending = Ending.SUCCESS, comm: str = "nginx", pid: int = 4711) -> Single:
    """One handshake; where it didn't succeed, with REASON."""
    why = REASON if ending is not Ending.SUCCESS else ("", "", "")
    parts = Shake({Part.REST: 0, **times}, {}, ending).parts
    return Single(1.482, pid, pid, comm, ending, parts, {Label.ROLE: "server"}, 3, 0, *why)


def shown(one: Single, page: Page = FILE, by: tuple[Label, ...] = ()) -> str:
    (text,) = HandshakeLines(by, page).render([one])
    assert text.endswith("\n")
    return text[:-1]


def cells(one: Single) -> list[str]:
    """WAIT(ms), QUEUE, PEER, CALLS of its line in a file."""
    return shown(one).split()[3:7]


def variety() -> list[Single]:
    """All endings and parts, long times, a large PID and names that are meant to do harm."""
    times = [QUEUED | WORK, WORK | UNSURE, PAUSED, {}, dict.fromkeys((Part.QUEUE_START, *WAITS, Part.REST), 3_600_000 * MS)]
    times += [{Part.REST: MS, **dict.fromkeys((Part.OFF_CPU_RUNNABLE, Part.REST_ASLEEP, Part.GONE), MS)}]
    ones = [single(part, ending) for part in times for ending in Ending]
    ones += [replace(one, comm=HOSTILE, pid=4194303, labels={Label.SNI: HOSTILE, Label.PEER: None}) for one in ones]
    ones += [replace(one, reason=f"{HOSTILE} {one.reason}", peer_left=True, undelivered=True, unphased=True) for one in ones]
    return [*ones, single(WORK, comm="a-name-of-15-ch"), replace(single(UNSURE), labels={Label.ROLE: "client"})]


@pytest.mark.parametrize("by", [(), (Label.SNI, Label.PEER)])
@pytest.mark.parametrize("columns", [80, 81, 100, 119, 120, 140, 200])
def test_every_line_fits_and_steers_no_terminal(columns: int, by: tuple[Label, ...]) -> None:
    lines = HandshakeLines(by, Page(min(100, columns), most=columns))
    drawn = [lines.heading, *lines.render(variety())]
    assert max(len(line) for text in drawn for line in text.splitlines()) <= columns
    assert all(line.isascii() and line.isprintable() for text in drawn for line in text.split("\n"))
    assert all(str(one.ending) in text.split("\n")[0] for one, text in zip(variety(), drawn[1:], strict=True))
    assert all(f"{one.pid}" in text.split("\n")[0] for one, text in zip(variety(), drawn[1:], strict=True))


def test_in_a_file_each_is_one_line_and_columns_line_up() -> None:
    ones = [one for one in variety() if one.comm != HOSTILE and Part.WAIT_WINDOW not in one.parts]  # an hour is wider
    drawn = HandshakeLines((Label.SNI,)).render(ones)
    assert all(text.count("\n") == 1 for text in drawn)
    column = HandshakeLines().heading.index("OUTCOME")
    assert [text[column:].split()[0] for text in drawn] == [str(one.ending) for one in ones]


def test_the_owners_times_are_what_the_client_waited() -> None:
    for one in variety():
        assert sum(share.time_ns for share in owned(one)) == one.parts[Part.CLIENT_WAIT]
    assert cells(single(QUEUED | WORK | {Part.WAIT_PEER: 7 * MS})) == ["40.000", "30.000", "7.000", "3.000"]


def test_when_and_whose_it_is() -> None:
    assert shown(single(WORK)).split()[:3] == ["05:30:01.482000", "4711", "nginx"]
    assert shown(single(WORK), NARROW).split()[:2] == ["05:30:01.482", "nginx(4711)"]
    assert shown(single(WORK, comm="a-name-of-15-ch", pid=4194303), NARROW).split()[1] == "a-nam(4194303)"


def test_what_a_handshake_did_not_have_is_no_number() -> None:
    assert cells(single({Part.REST: 1500})) == ["0.002", "-", "-", "0.002"]
    assert cells(single({})) == ["0.000", "-", "-", "-"]
    assert shown(single({})).endswith(" success")


@pytest.mark.parametrize("page", [NARROW, MIDDLE, WIDE, FILE])
def test_it_is_marked_where_it_isnt_known_whose_a_wait_is(page: Page) -> None:
    one = single(UNSURE | {Part.WAIT_PEER: MS, Part.REST: MS})
    assert re.search(r" 5\.000?\? +1\.000? success", shown(one, page))
    assert "peer or server" in shown(one, page)
    assert "peer or program" in shown(replace(one, labels={Label.ROLE: "client"}), page)


def test_the_longest_parts_are_named_first() -> None:
    assert shown(single(QUEUED | WORK)).endswith(" success queue: asleep 29.0 ms; calls: private key 2.00 ms")
    assert shown(single(WORK | {Part.QUEUE_SERVER: MS})).endswith(" success calls: private key 2.00 ms")
    assert shown(single(QUEUED | WORK), NARROW).endswith(" success asleep")  # the other is less than a tenth
    assert shown(single(QUEUED | {Part.REST: 9 * MS}), NARROW).endswith(" success asleep, rest")
    assert shown(single(WORK | {Part.WAIT_PEER: 2 * MS}), NARROW).endswith(" success private key")  # no room for the other


def test_of_the_peers_time_what_explains_most_of_it_is_named() -> None:
    far = {Part.WAIT_PEER: 100 * MS, Part.REST: MS}
    assert shown(single(far | {Part.ROUND_TRIPS: 99 * MS}), NARROW).endswith(" success round trips")
    assert shown(single(far | {Part.ROUND_TRIPS: MS}), NARROW).endswith(" success peer")
    assert "peer: losses 90.0 ms" in shown(single(far | {Part.LOSSES: 90 * MS}))


def test_what_comes_after_an_offload_was_done_is_the_queues() -> None:
    assert " success queue: in other work 5.00 ms; offload 3.00 ms; calls" in shown(single(PAUSED))
    assert shown(single(PAUSED), NARROW).endswith(" success in other work\n    offload 3.00 ms")


@pytest.mark.parametrize("ending", [Ending.FAILURE, Ending.ABANDONED])
def test_why_it_did_not_succeed_is_said_whole(ending: Ending) -> None:
    why = 'no shared cipher, alert "handshake failure", in state "SSLv3/TLS read client hello"'
    assert f" {ending} {why}; calls: rest 1.00 ms" in shown(single({Part.REST: MS}, ending))
    first, *below = shown(single({Part.REST: MS}, ending), NARROW).split("\n")
    assert first.endswith(f" {ending} rest")
    assert " ".join(" ".join(below).split()) == why


def test_phases_that_were_not_watched_are_not_taken_for_the_rest() -> None:
    one = replace(single({Part.REST: MS}), unphased=True)
    assert shown(one).endswith(" success phases not watched")
    assert shown(one, NARROW).endswith(" success calls")
    assert "calls: private key" in shown(replace(single(WORK), unphased=True))


def test_a_name_that_has_no_room_is_below() -> None:
    one = single({Part.PEER_VERIFICATION: 3 * MS})
    assert shown(one, NARROW).split("\n")[1:] == ["    calls: peer verification 3.00 ms"]


def test_who_shook_hands_comes_last() -> None:
    one = replace(single(WORK), labels={Label.SNI: "a.example", Label.PORT: None})
    assert shown(one, FILE, (Label.SNI, Label.PORT)).endswith(" private key 2.00 ms sni=a.example port=unknown")
    assert shown(one, NARROW, (Label.SNI, Label.PORT)).split("\n")[1] == "    sni=a.example port=unknown"
    assert "sni" not in shown(one)


def test_failures_and_the_longest_part_stand_out() -> None:
    page = replace(NARROW, colour=True)
    text = shown(single(QUEUED | WORK), page)
    assert f"  {DOMINANT}30.00{END} " in text
    assert re.sub("[\ue000-\ue00f]", "", text) == shown(single(QUEUED | WORK), NARROW)
    assert f" {FAILURE}failure rest{END}" in shown(single({Part.REST: MS}, Ending.FAILURE), page)
