# SPDX-License-Identifier: Apache-2.0
"""A recording from within `top`: the intervals that were read meanwhile, in a file that can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measured.live_readings import failed, readings, shake

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.output import recordings
from ssllatency.output.screen.recorder import Recorder
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.targets.containers.service import Service, ServiceKind
from ssllatency.tracing.top.services import ServiceNames

NGINX = "nginx(17)"


def recorder(file: Path) -> Recorder:
    return Recorder(lambda: str(file), "ssllatency top --all", 1.0)


def test_what_is_read_while_it_runs_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    record = recorder(file)
    each = readings([[shake(NGINX)] * number for number in (1, 2, 4, 8)])
    assert [record.take(reading) for reading in each[:2]] == ["", ""]
    assert record.toggle() == f"Recording to {file}; r stops it."
    assert record.running
    assert [record.take(reading) for reading in each[2:4]] == ["", ""]
    assert record.toggle() == f"{file} holds 2 intervals."
    assert not record.running
    record.take(each[4])
    assert record.close() == ""
    recording = from_text(file.read_text(), "x")
    counts = [total(interval.handshakes, Ending.SUCCESS) for interval in recording.intervals if interval.handshakes]
    assert [group.count for group in counts if group] == [2, 4]
    assert recording.runs[0].command == "ssllatency top --all"
    assert not recording.runs[0].notes


def test_at_the_end_it_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    record = recorder(file)
    first, second = readings([[shake(NGINX)]])
    record.take(first)
    record.toggle()
    record.take(second)
    assert record.close() == f"{file} holds 1 interval."
    assert not from_text(file.read_text(), "x").runs[0].notes


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("mine")
    record = recorder(file)
    record.take(readings([])[0])
    with pytest.raises(SsllatencyError, match="is there already"):
        record.toggle()
    assert not record.running
    assert file.read_text() == "mine"


def test_before_the_first_reading_there_is_nothing_to_record(tmp_path: Path) -> None:
    assert recorder(tmp_path / "x.jsonl").toggle() == "There is nothing to record yet."
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorder(tmp_path / "x.jsonl")
    first, second = readings([[shake(NGINX)]])
    record.take(first)
    record.toggle()

    def full(*_: object) -> None:
        raise SsllatencyError("x.jsonl can't be written: No space left on device.")

    monkeypatch.setattr(recordings.Writer, "write", full)
    assert record.take(second) == "The recording has ended: x.jsonl can't be written: No space left on device."
    assert not record.running
    assert record.close() == ""


def test_each_process_is_looked_up_once() -> None:
    asked: list[tuple[int, str]] = []

    def look_up(pid: int, comm: str) -> Service:
        asked.append((pid, comm))
        return Service(f"unit-{pid}", ServiceKind.UNIT)

    services = ServiceNames(look_up)
    for reading in readings([[shake(NGINX)], [failed("haproxy(40)")]]):
        names = services.names(reading.snapshot)
    assert names == {17: "unit-17", 40: "unit-40"}
    assert sorted(asked) == [(17, "nginx"), (40, "haproxy")]
