# SPDX-License-Identifier: Apache-2.0
"""Printing calls and handshakes as they end: what ends a window isn't put off until all calls that it saw are printed, there
are no more lines than were asked for, and what was dropped is said."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests import schema
from tests.measured.handshakes import Shake
from tests.measured.replay import Replay
from tests.unit.reports.report_samples import snapshot_of

from ssllatency.cli.live.printers.call_printer import CallPrinter
from ssllatency.cli.live.printers.handshake_printer import HandshakePrinter
from ssllatency.engines.sessions.snoop import EventKeys, SnoopSession
from ssllatency.model.handshakes import Ending, Handshakes, Part, Single
from ssllatency.model.snapshot import Losses, Snapshot
from ssllatency.tracing.live import RunEnd

BATCHES = 5
DUPLICATE = "This was said while it was traced."


class Session:
    """Batches wait in its ring; `polled` has how many had been taken when `poll` was called."""

    def __init__(self, due_s: float) -> None:
        self.due_s, self.keys, self.polled, self.taken = due_s, EventKeys(("SSL_read",)), list[int](), 0

    def batches(self) -> Iterator[bytes]:
        while self.taken < BATCHES:
            self.taken += 1
            yield b""

    def poll(self) -> None:
        self.polled.append(self.taken)

    def wait(self, timeout_s: float) -> bool:
        assert timeout_s == 0  # its end waits, which sees more
        return True

    def fileno(self) -> int:
        return 7

    def detach(self) -> None:
        pass

    events_dropped = 0

    def read(self) -> Snapshot:
        return snapshot_of()


class Once:
    """A run that ends after its first look."""

    at = math.inf

    def __init__(self) -> None:
        self._looks = 0

    def has_come(self) -> bool:
        self._looks += 1
        return self._looks > 1

    def wait_for(self, descriptor: int, seconds: float) -> None:
        assert descriptor == 7
        assert seconds <= 0.05


@pytest.mark.parametrize(("due_s", "polled"), [(0.0, [0, 1, 2, 3, 4, 5]), (math.inf, [0])], ids=["due", "not due"])
def test_what_is_due_is_done_between_batches(monkeypatch: pytest.MonkeyPatch, due_s: float, polled: list[int]) -> None:
    session = Session(due_s)
    arguments = argparse.Namespace(count=None, columns=None, json=True, by=())
    with open("/dev/null", "w") as nowhere:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", nowhere)
        CallPrinter(cast(SnoopSession, session), arguments, cast(RunEnd, cast(Any, Once()))).print_all()
    assert session.polled == polled


class Shaking(Replay):
    """Hands over `singles` in one go, and says that some were dropped."""

    notes = (DUPLICATE,)

    def __init__(self, singles: list[Single], dropped: int) -> None:
        super().__init__(singles=[singles])
        self.events_dropped = dropped

    def read(self, *, per_interval: bool = False) -> Snapshot:
        del per_interval
        snapshot = snapshot_of(handshakes=Handshakes((), in_flight=2, partial=3))
        return replace(snapshot, losses=Losses(events_dropped=self.events_dropped), notes=(DUPLICATE,))


def singles() -> list[Single]:
    """Two of each ending."""
    made = Shake({Part.REST: 2_000_000}).parts
    return [Single(float(at), 7, 7, "nginx", ending, made, {}, 1, 0) for at in range(2) for ending in Ending]


def printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session: Shaking, early: Sequence[Single] = (), **options: object
) -> list[str]:
    """The lines on standard output."""
    arguments = argparse.Namespace(**{"count": None, "columns": None, "json": True, "by": (), "outcome": None, **options})
    file = tmp_path / "output"
    with file.open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        HandshakePrinter(session, arguments, cast(RunEnd, cast(Any, Once())), early).print_all()
    assert session.is_detached
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    ("options", "endings"),
    [
        ({}, ["success", "failure", "abandoned"] * 2),
        ({"count": 4}, ["success", "failure", "abandoned", "success"]),
        ({"outcome": ["abandoned", "failure"]}, ["failure", "abandoned"] * 2),
        ({"outcome": ["failure"], "count": 1}, ["failure"]),
    ],
)
def test_each_handshake_that_is_asked_for_is_a_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: dict[str, object],
    endings: list[str],
) -> None:
    lines = [json.loads(line) for line in printed(monkeypatch, tmp_path, Shaking(singles(), 0), **options)]
    for line in lines:
        schema.check(line)
    assert [line["handshake"]["ending"] for line in lines] == endings
    heading, *text = printed(monkeypatch, tmp_path, Shaking(singles(), 0), json=False, **options)
    assert heading.endswith(" OUTCOME, MOSTLY")
    assert [line.split(" calls: ")[0].split()[-1] for line in text] == endings
    assert f"{len(endings)} handshake{'s' if len(endings) > 1 else ''} shown." in capsys.readouterr().err


def test_handshakes_that_have_been_taken_already_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, *others = singles()
    lines = printed(monkeypatch, tmp_path, Shaking(others, 0), [replace(first, calls=9)])
    assert [json.loads(line)["handshake"]["calls"] for line in lines] == [9, *[1] * len(others)]


def test_what_was_missed_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    *shown, last = printed(monkeypatch, tmp_path, Shaking(singles(), 5))
    dropped = json.loads(last)
    schema.check(dropped)
    assert (len(shown), dropped["dropped"]) == (6, 5)
    assert capsys.readouterr().err.splitlines() == [
        "ssllatency: 5 handshakes dropped: they came faster than they could be printed.",
        "6 handshakes shown.",
        "2 handshakes had begun and not ended.",
        "Note: Handshakes whose beginning was not seen, and that aren't counted: 3.",
        "Lost or uncertain:",
        "  5 records dropped because a ring buffer was full",
    ]
