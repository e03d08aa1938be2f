# SPDX-License-Identifier: Apache-2.0
"""Single calls as lines: columns that line up, JSON that parses, and nothing said that isn't known."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from tests import schema

from ssllatency.model.events import Call, Caller, Event, Returned, as_int32
from ssllatency.model.handshakes import Label
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.text.events import Columns, JsonLines, Moments, WhomColumns, returned_text

SECOND = 10**9
CALLS = [
    Call("SSL_read", Returned.NUMBER, Outcome.SUCCESS, ""),
    Call("SSL_do_handshake", Returned.NUMBER, Outcome.RETRY, "WANT_ASYNC"),
    Call("ossl_ecdsa_sign_sig", Returned.POINTER, Outcome.FAILURE, ""),
    Call("mbx_x25519_mb8", Returned.STATUS, Outcome.SUCCESS, ""),
    Call("ASYNC_pause_job", Returned.NOTHING, Outcome.SUCCESS, ""),
]


class Keys:
    """Keys that are what they stand for: the caller's "PID TID COMM", the number of a call above."""

    def __init__(self) -> None:
        self.asked = 0

    def caller(self, key: bytes) -> Caller:
        self.asked += 1
        pid, tid, comm = key.decode().split(" ", 2)
        return Caller(int(pid), int(tid), comm)

    def call(self, key: int) -> Call:
        self.asked += 1
        return CALLS[key]


@pytest.fixture(autouse=True)
def five_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-05:30")
    time.tzset()
    yield
    os.environ.pop("TZ")
    time.tzset()


def event(
    call: int, returned: int, size: int = -1, ended_ns: int = 0, duration_ns: int = 1500, who: str = "7 8 nginx"
) -> Event:
    return ended_ns, duration_ns, returned & (1 << 64) - 1, size, who.encode(), call


MIXED = [
    event(0, 16384, 16384),
    event(1, -1, duration_ns=0, who="4194303 4194303 abcdefghijklmno"),
    event(2, 0, ended_ns=1234 * 1000),
    event(3, 0x22222220),
    event(4, 77, duration_ns=12_345_678_949),
]


def test_columns_line_up() -> None:
    columns = Columns(Keys())
    lines = [columns.heading, *columns.render(MIXED, 0)]
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    starts = {
        line.index(word) for line, word in zip(lines, ["OUTCOME", "succ", "retry", "failure", "succ", "succ"], strict=True)
    }
    assert len(starts) == 1
    assert [re.split(r"\s+", line.strip()) for line in lines[1:]] == [
        ["05:30:00.000000", "7", "8", "nginx", "SSL_read", "16384", "16384", "1.5", "success"],
        ["05:30:00.000000", "4194303", "4194303", "abcdefghijklmno", "SSL_do_handshake", "-1", "0.0", "retry", "WANT_ASYNC"],
        ["05:30:00.001234", "7", "8", "nginx", "ossl_ecdsa_sign_sig", "0x0", "1.5", "failure"],
        ["05:30:00.000000", "7", "8", "nginx", "mbx_x25519_mb8", "0x22222220", "1.5", "success"],
        ["05:30:00.000000", "7", "8", "nginx", "ASYNC_pause_job", "-", "12345678.9", "success"],
    ]


def test_json_has_no_field_for_what_isnt_known() -> None:
    first, retry, pointer, status, nothing = map(json.loads, JsonLines(Keys()).render(MIXED, 0))
    for call in (first, retry, pointer, status, nothing, json.loads(Moments().dropped(7, 0))):
        schema.check(call)
    assert first == {
        "time": "1970-01-01T05:30:00.000000+05:30",
        "pid": 7,
        "tid": 8,
        "comm": "nginx",
        "function": "SSL_read",
        "outcome": "success",
        "returned": 16384,
        "bytes": 16384,
        "duration_ns": 1500,
    }
    assert (retry["returned"], retry["outcome"], retry["reason"]) == (-1, "retry", "WANT_ASYNC")
    assert "bytes" not in retry
    assert (pointer["returned"], pointer["outcome"], "reason" in pointer) == ("0x0", "failure", False)
    assert status["returned"] == "0x22222220"
    assert "returned" not in nothing


def test_the_time_is_that_of_the_end_on_the_wall_clock() -> None:
    lines = JsonLines(Keys())
    ends = (0, 999_999_999, SECOND, 3600 * SECOND - 1, 86400 * SECOND)
    wall_ns = 1_700_000_000 * SECOND + 123_456
    for end, line in zip(ends, lines.render([event(0, 1, ended_ns=end) for end in ends], wall_ns), strict=True):
        moment = datetime.fromisoformat(json.loads(line)["time"])
        assert round(moment.timestamp() * 10**6) == (wall_ns + end) // 1000
    assert json.loads(Moments().dropped(12, wall_ns)) == {"time": "2023-11-15T03:43:20.000123+05:30", "dropped": 12}


@pytest.mark.parametrize(("register", "number"), [(1, 1), ((1 << 32) - 1, -1), ((1 << 63) | 5, 5), (0x80000000, -(1 << 31))])
def test_an_int_is_the_lower_half_of_the_register(register: int, number: int) -> None:
    assert as_int32(register) == number
    assert returned_text(Returned.NUMBER, register) == str(number)


def test_a_name_can_steer_neither_the_terminal_nor_the_json() -> None:
    evil = 'x\x1b[2J"\n\u00e9'
    (line,) = Columns(Keys()).render([event(0, 1, 1, who=f"1 2 {evil}")], 0)
    assert line.isascii()
    assert line.strip().isprintable()
    (line,) = JsonLines(Keys()).render([event(0, 1, 1, who=f"1 2 {evil}")], 0)
    assert json.loads(line)["comm"] == evil
    assert line.isascii()
    assert line.strip().isprintable()


@pytest.mark.parametrize("kind", [Columns, JsonLines])
def test_what_calls_have_in_common_is_looked_up_once_and_not_kept_for_ever(kind: type[Columns] | type[JsonLines]) -> None:
    keys = Keys()
    lines = kind(keys)
    assert len(lines.render(MIXED * 50, 0)) == 250
    assert keys.asked == 2 + len(CALLS)
    many = [event(0, 1, 1, who=f"{pid} {pid} x") for pid in range(20_000)]
    rendered = lines.render(many, 0)
    assert len(set(rendered)) == len(many)
    assert len(lines._callers) <= 4096


@pytest.mark.parametrize("kind", [Columns, JsonLines])
def test_who_shook_hands_comes_last(kind: type[Columns | JsonLines]) -> None:
    event = (SECOND, 1000, 1, -1, b"7 7 nginx", 0)
    said: dict[bytes, dict[Label, str | None]] = {b"known": {Label.SNI: "a.example", Label.PORT: None}, b"": {}}
    (plain,) = kind(Keys()).render([event], 0)
    lines = WhomColumns(kind(Keys()), said.__getitem__)
    assert lines.heading == kind(Keys()).heading
    known, unknown = lines.render([(*event, b"known"), (*event, b"")], 0)
    assert unknown == plain
    if kind is Columns:
        assert known == plain[:-1] + " sni=a.example port=unknown\n"
    else:
        assert json.loads(known) == {**json.loads(plain), "labels": {"sni": "a.example", "port": None}}
