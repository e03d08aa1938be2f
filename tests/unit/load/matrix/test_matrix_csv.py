# SPDX-License-Identifier: Apache-2.0
"""The table of a matrix's runs: its rows, and how an interrupted one is continued."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.matrices import SERVER, matrix, only_cell
from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.load.figures import LoadError
from ssllatency.load.matrix.plan import Factor
from ssllatency.load.matrix.table import COLUMNS, MatrixTable, kept, row
from ssllatency.model.client import ClientReport, ConnectionBounds, Figure
from ssllatency.model.handshakes import NO, YES, Ending, Label, Part
from ssllatency.model.snapshot import Losses, Snapshot

FULL = Shake({Part.PRIVATE_KEY: 600_000, Part.REST: 400_000, Part.WAIT_PEER: 1_000_000}, {Label.RESUMED: NO})
RESUMED = Shake({Part.REST: 500_000}, {Label.RESUMED: YES})
FAILED = Shake({Part.REST: 100_000}, ending=Ending.FAILURE, reason="no shared cipher")
RATE = Figure("connections a second", 1234.5678, "1/s", "")
CLIENT = ClientReport(
    "s_time", figures=(RATE, Figure("bytes a connection", 288.0, "bytes", "")), connections=ConnectionBounds(4, 4, "")
)
MATRIX, CELL = matrix(), only_cell()


def measured(*shakes: Shake) -> Snapshot:
    return Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), (), handshakes=handshakes_of(shakes))


def made(repeat: int = 1) -> dict[str, str]:
    return row(MATRIX, CELL, repeat, measured(FULL, FULL, RESUMED, FULL, FAILED), CLIENT)


def test_a_row() -> None:
    found = made(3)
    assert set(found) <= set(COLUMNS)
    assert found[Factor.KEY] == "RSA-2048"
    assert found["matrix"] == MATRIX.identity
    assert (found["repeat"], found["connections"], found["handshakes"], found["not_successful"]) == ("3", "4", "4", "1")
    assert (found["connections_per_s"], found["bytes_per_connection"]) == ("1234.57", "288")
    assert found["resumed_share"] == "0.25"
    assert float(found["wall_p50_us"]) == pytest.approx(2000, rel=0.03)
    assert found["lost"] == "0"


def test_the_parts_add_up_to_the_whole() -> None:
    """Means over all successful handshakes, also of a part that only some had."""
    found = {name: float(value) for name, value in made().items() if name.endswith("_mean_us")}
    assert found["wall_mean_us"] == pytest.approx((3 * 2000 + 500) / 4)
    assert found["private_key_mean_us"] == pytest.approx(3 * 600 / 4)
    waits = sum(value for name, value in found.items() if name.startswith("wait_"))
    assert found["calls_mean_us"] + waits == pytest.approx(found["wall_mean_us"])
    phases = ("private_key", "key_exchange", "peer_verification", "session_lookup", "callbacks", "rest")
    assert sum(found[f"{phase}_mean_us"] for phase in phases) == pytest.approx(found["calls_mean_us"])


def test_what_is_not_known_is_empty() -> None:
    server = replace(measured(FAILED), losses=Losses(map_full=3))
    found = row(MATRIX, CELL, 1, server, ClientReport("h2load", connections=ConnectionBounds(4, None, "")))
    empty = ("connections", "connections_per_s", "bytes_per_connection", "resumed_share")
    assert [found[name] for name in empty] == [""] * 4
    assert "wall_p50_us" not in found
    assert (found["handshakes"], found["not_successful"], found["lost"]) == ("0", "1", "3")


def test_a_table_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    with MatrixTable.open(str(file), MATRIX) as table:
        assert table.kept.rows == ()
        table.append(made(1))
    with MatrixTable.open(str(file), MATRIX) as table:
        assert table.kept.done == {(CELL.key, 1)}
        table.append(made(2))
    with file.open() as text:
        rows = list(csv.DictReader(text))
    assert [one["repeat"] for one in rows] == ["1", "2"]
    assert tuple(rows[0]) == COLUMNS


@pytest.mark.slow
def test_every_torn_end_is_mended(tmp_path: Path) -> None:
    """Wherever a crash cut the last row, what was whole stays, and what is appended begins a line of its own."""
    file = tmp_path / "runs.csv"
    with MatrixTable.open(str(file), MATRIX) as table:
        table.append(made(1))
        whole = file.read_bytes()
        table.append(made(2))
    both = file.read_bytes()
    for length in range(len(both)):
        file.write_bytes(both[:length])
        with MatrixTable.open(str(file), MATRIX) as table:
            assert table.kept.torn == (both[:length][-1:] not in (b"", b"\n"))
            assert len(table.kept.rows) == (length >= len(whole))
            table.append(made(2))
        with MatrixTable.open(str(file), MATRIX) as table:
            assert (CELL.key, 2) in table.kept.done
            assert not table.kept.torn


def test_a_table_has_one_writer(tmp_path: Path) -> None:
    file = str(tmp_path / "runs.csv")
    with MatrixTable.open(file, MATRIX) as table:
        table.append(made(1))
        with pytest.raises(LoadError, match=r"runs\.csv is being written by another run of a matrix\."):
            MatrixTable.open(file, MATRIX)
        table.append(made(2))
    with MatrixTable.open(file, MATRIX) as table:
        assert len(table.kept.rows) == 2


def test_another_matrix_is_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "runs.csv")
    with MatrixTable.open(file, MATRIX) as table:
        table.append(made())
    with MatrixTable.open(file, matrix(head=f"repeats = 99\n{SERVER}")) as table:
        assert len(table.kept.rows) == 1
    with pytest.raises(LoadError, match="holds runs of another matrix"):
        MatrixTable.open(file, matrix('key = "Ed25519"'))


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    heading = ",".join(COLUMNS) + "\n"
    bad = heading + ",".join(made().get(name, "") for name in COLUMNS).replace("1234.57", "fast") + "\n"
    two = heading + ",".join(made().get(name, "") for name in COLUMNS).replace(",1,2030", ",1.5,2030") + "\n"
    for text, words in (
        ("precious", "isn't a table"),
        ("precious\n", "isn't a table"),
        (f"{heading}1,2\n", "line 2, isn't a row"),
        (bad, "line 2, isn't a row"),
        (two, "line 2, isn't a row"),
        ("one\rtwo\n", "isn't a table"),
        (heading + "x" * 200_000 + "\n", "isn't a table"),
    ):
        file.write_bytes(text.encode())
        with pytest.raises(LoadError, match=words):
            MatrixTable.open(str(file), MATRIX)
        with pytest.raises(LoadError, match=words):
            kept(str(file), MATRIX)
        assert file.read_bytes() == text.encode()
    with pytest.raises(LoadError, match="can't be written"):
        MatrixTable.open(str(tmp_path), MATRIX)


def test_a_table_is_for_its_owner_alone_and_written_through_no_link(tmp_path: Path) -> None:
    file, link = tmp_path / "runs.csv", tmp_path / "link.csv"
    with MatrixTable.open(str(file), MATRIX):
        assert file.stat().st_mode & 0o777 == 0o600
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LoadError, match="can't be written"):
        MatrixTable.open(str(link), MATRIX)
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe")):
        for made_of in (MatrixTable.open, kept):
            with pytest.raises(LoadError, match="isn't a regular file"):
                made_of(path, MATRIX)
    with pytest.raises(LoadError, match="isn't a regular file"):
        kept(str(tmp_path), MATRIX)


def test_a_table_is_looked_at(tmp_path: Path) -> None:
    """Also one that is being written, and nothing is changed."""
    file = tmp_path / "runs.csv"
    assert kept(str(file), MATRIX).rows == ()
    with MatrixTable.open(str(file), MATRIX) as table:
        table.append(made(1))
        with file.open("a") as more:
            more.write("torn")
        assert kept(str(file), MATRIX).done == {(CELL.key, 1)}
        assert file.read_text().endswith("torn")
