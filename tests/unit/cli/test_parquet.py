# SPDX-License-Identifier: Apache-2.0
"""`ssllatency merge --parquet`: the table has what the recordings have, and the query in the documentation gives the fleet's
percentiles."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.measured.recordings import recording_of

from ssllatency.cli.command_line import run
from ssllatency.model.arithmetic.handshake_sums import add_times
from ssllatency.model.handshakes import Ending, Part, Times
from ssllatency.model.recording import Recording
from ssllatency.output.recordings import read
from ssllatency.reports.documents.recording import to_lines

TOP = Path(__file__).parents[3]


def kept(folder: Path, name: str, recording: Recording) -> str:
    (folder / name).write_text("".join(to_lines(recording, by_process=True)), encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def hosts(tmp_path: Path) -> list[str]:
    """Two hosts whose keys differ, so that no host's percentile is the fleet's."""
    slow = recording_of(2, host="web2", key_ns=4_500_000)
    return [kept(tmp_path, "web1.jsonl", recording_of(1)), kept(tmp_path, "web2.jsonl", slow)]


def walls(recording: Recording) -> Times:
    """The wall times of all successful handshakes."""
    return add_times(
        [
            group.parts[Part.WALL]
            for interval in recording.intervals
            for group in (interval.handshakes.groups if interval.handshakes else ())
            if group.ending is Ending.SUCCESS
        ]
    )


def answered(query: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(query).fetchall()


def documented_query() -> str:
    [query] = re.findall(r"```sql\n(.*?)```", (TOP / "docs/reference/merge.md").read_text(), re.DOTALL)
    return str(query)


def test_the_documented_query_gives_the_percentiles_of_the_fleet(hosts: list[str], tmp_path: Path) -> None:
    table = tmp_path / "fleet.parquet"
    assert run(["merge", *hosts, "--parquet", str(table)]) == 0
    answers = {host: (p99_s, calls) for host, p99_s, calls in answered(documented_query().replace("fleet.parquet", str(table)))}
    one, other = map(read, hosts)
    for host, recording in (("web1", one), ("web2", other), ("fleet", Recording((*one.runs, *other.runs)))):
        times = walls(recording)
        bounds = times.exponential.quantile_range(0.99)
        assert bounds is not None
        assert answers[host] == (pytest.approx(bounds[1] / 1e9, rel=1e-12), times.count)
    assert answers["web1"][0] < answers["fleet"][0] or answers["web2"][0] < answers["fleet"][0]


def test_the_table_adds_up_to_the_report(hosts: list[str], tmp_path: Path) -> None:
    table, both = tmp_path / "fleet.parquet", tmp_path / "both.jsonl"
    assert run(["merge", *hosts, "--parquet", str(table), "-o", str(both)]) == 0
    query = f"""
        SELECT subject, outcome, sum(count)::BIGINT, sum(total_ns)::BIGINT, min(min_ns), max(max_ns),
            sum(list_sum(list_transform(buckets, lambda bucket: bucket.calls)))::BIGINT
        FROM '{table}' WHERE part IS NULL GROUP BY ALL ORDER BY ALL"""
    total = read(str(both)).total()
    reported = [
        (series.function, series.outcome.value, series.count, series.total_ns, series.min_ns, series.max_ns, series.count)
        for series in total.series
    ]
    assert answered(query) == sorted(reported)
    assert answered(f"SELECT DISTINCT host FROM '{table}' ORDER BY host") == [("web1",), ("web2",)]


def test_without_an_output_nothing_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["merge", "nowhere.jsonl"]) == 2
    assert "nothing to write" in capsys.readouterr().err


def test_a_table_that_is_there_is_kept(hosts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "fleet.parquet"
    table.write_text("mine")
    assert run(["merge", *hosts, "--parquet", str(table)]) == 1
    assert "--force" in capsys.readouterr().err
    assert table.read_text() == "mine"
    assert run(["merge", *hosts, "--parquet", str(table), "--force"]) == 0
    assert table.read_bytes().startswith(b"PAR1")


def test_without_pyarrow_one_sentence(
    hosts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert run(["merge", *hosts, "--parquet", str(tmp_path / "out.parquet")]) == 1
    assert "--parquet needs pyarrow" in capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()
