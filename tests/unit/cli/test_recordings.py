# SPDX-License-Identifier: Apache-2.0
"""`ssllatency report`, `merge` and `diff` of kept recordings; and what may be written where."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.measured.recordings import recording_of

from ssllatency.cli.command_line import run
from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.output import recordings
from ssllatency.output.recordings import Writer, read
from ssllatency.reports.documents import document
from ssllatency.reports.documents.recording import to_lines

Printed = pytest.CaptureFixture[str]


def kept(folder: Path, name: str, recording: Recording, cut: int = 0) -> str:
    """The file of the recording, without its last so many lines."""
    lines = list(to_lines(recording, by_process=True))
    (folder / name).write_text("".join(lines[: len(lines) - cut]), encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def before(tmp_path: Path) -> str:
    return kept(tmp_path, "before.jsonl", recording_of(1))


@pytest.fixture
def same(tmp_path: Path) -> str:
    return kept(tmp_path, "same.jsonl", recording_of(2, host="web2"))


@pytest.fixture
def slower(tmp_path: Path) -> str:
    return kept(tmp_path, "slower.jsonl", recording_of(3, key_ns=4_500_000))


def on_the_older_grid(value: object) -> object:
    """A document as versions before the grid of seconds wrote it: bucket i ended at 2^((i+1)/16) ns, and no grid was named."""
    if isinstance(value, list):
        return [on_the_older_grid(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("grid") == "s":
        return {name: item for name, item in value.items() if name != "grid"} | {"offset": value["offset"] + 478}
    return {name: on_the_older_grid(item) for name, item in value.items()}


@pytest.fixture
def older(before: str, tmp_path: Path) -> str:
    lines = Path(before).read_text().splitlines()
    (tmp_path / "older.jsonl").write_text("".join(json.dumps(on_the_older_grid(json.loads(line))) + "\n" for line in lines))
    return str(tmp_path / "older.jsonl")


def test_a_recording_of_the_older_grid_is_reported_and_compared(
    older: str, before: str, slower: str, tmp_path: Path, capsys: Printed
) -> None:
    assert run(["report", older, "--json"]) == 0
    function = json.loads(capsys.readouterr().out)["functions"][0]
    assert function["exponential"]["grid"] == "ns"
    [now] = (row for row in document.to_document(read(before).total())["functions"] if row["function"] == function["function"])  # type: ignore[attr-defined]
    assert function["p50_ns"] == pytest.approx(now["p50_ns"], rel=0.06)
    assert run(["report", older, "--html", str(tmp_path / "older.html")]) == 0
    assert run(["diff", older, slower]) == 0
    assert "slower" in capsys.readouterr().out


def test_recordings_of_different_grids_are_not_merged(older: str, same: str, tmp_path: Path, capsys: Printed) -> None:
    out = tmp_path / "both.jsonl"
    assert run(["merge", older, same, "-o", str(out)]) == 1
    assert "different bucket bounds" in capsys.readouterr().err
    assert run(["diff", older, same, "--html", str(out)]) == 1
    assert "one page can't show both" in capsys.readouterr().err
    assert not out.exists()


def test_report_is_of_the_total(before: str, capsys: Printed) -> None:
    assert run(["report", before]) == 0
    printed = capsys.readouterr()
    assert "6.00 s from 2030-01-31T12:00:00" in printed.out
    assert "@hist[rsa_ossl_private_encrypt]" in printed.out
    assert printed.err == ""
    assert run(["report", before, "--json"]) == 0
    assert document.from_json(capsys.readouterr().out) == document.from_json(document.to_json(read(before).total()))


def test_report_of_each_interval(before: str, capsys: Printed) -> None:
    assert run(["report", before, "--intervals", "--json", "--by-process"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert tuple(map(document.from_json, lines)) == read(before).intervals
    assert run(["report", before, "--intervals"]) == 0
    assert capsys.readouterr().out.count("Mean successful handshake") == 6


def test_what_was_cut_short_says_so_in_both_places(tmp_path: Path, capsys: Printed) -> None:
    file = kept(tmp_path, "cut.jsonl", recording_of(1), cut=1)
    assert run(["report", file]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"ssllatency: {file}: The recording was cut short: what came after interval 6 of web1 isn't in it.\n"
    assert "Note: The recording was cut short" in printed.out


def test_merged_is_the_sum(before: str, same: str, tmp_path: Path, capsys: Printed) -> None:
    out = str(tmp_path / "both.jsonl")
    assert run(["merge", before, same, "-o", out]) == 0
    assert capsys.readouterr().err == f"ssllatency: {out} holds 12 intervals of 2 runs on web1, web2.\n"
    one, other, both = (read(name) for name in (before, same, out))
    assert both.runs == (*one.runs, *other.runs)
    assert both.total() == Recording((*one.runs, *other.runs)).total()
    counts = [document.to_document(each.total())["handshakes"]["groups"][0]["count"] for each in (one, other, both)]  # type: ignore[index]
    assert counts[0] + counts[1] == counts[2] > 0


def test_merge_refuses_what_would_count_twice(before: str, same: str, tmp_path: Path, capsys: Printed) -> None:
    out = str(tmp_path / "both.jsonl")
    assert run(["merge", before, before, "-o", out]) == 2
    assert "named twice" in capsys.readouterr().err
    assert run(["merge", before, same, "-o", out]) == 0
    capsys.readouterr()
    assert run(["merge", before, out, "-o", str(tmp_path / "more.jsonl")]) == 2
    assert "the run on web1 from 2030-01-31T12:00:00+00:00 is in two of the files" in capsys.readouterr().err
    assert not (tmp_path / "more.jsonl").exists()


def test_merge_keeps_that_a_run_was_cut_short(same: str, tmp_path: Path, capsys: Printed) -> None:
    cut = kept(tmp_path, "cut.jsonl", recording_of(1), cut=3)
    assert run(["merge", cut, same, "-o", str(tmp_path / "both.jsonl")]) == 0
    capsys.readouterr()
    assert [len(each.intervals) for each in read(str(tmp_path / "both.jsonl")).runs] == [4, 6]
    assert "both.jsonl: The recording was cut short: what came after interval 4 of web1" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["merge", "BEFORE"], ["record", "--all"]])
def test_no_file_is_overwritten_unasked(before: str, same: str, command: list[str], capsys: Printed) -> None:
    kept_before = Path(same).read_bytes()
    assert run([before if word == "BEFORE" else word for word in command] + ["-o", same]) == 1
    assert capsys.readouterr().err == f"ssllatency: {same} is there already: --force overwrites it.\n"
    assert Path(same).read_bytes() == kept_before


def test_merge_overwrites_when_told_to(before: str, same: str, capsys: Printed) -> None:
    assert run(["merge", before, "-o", same, "--force"]) == 0
    assert "6 intervals of 1 run on web1" in capsys.readouterr().err
    assert read(same).runs == read(before).runs


def test_a_full_disk_is_a_sentence(before: str, capsys: Printed) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full here")
    assert run(["merge", before, "-o", "/dev/full", "--force"]) == 1
    assert capsys.readouterr().err == "ssllatency: /dev/full can't be written: No space left on device.\n"


def test_a_file_that_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with Writer(str(tmp_path / "new")) as writer:
        writer.write("x\n")
        with pytest.raises(SsllatencyError, match="is there already"):
            Writer(str(tmp_path / "new"))
    assert (tmp_path / "new").read_text() == "x\n"


def test_diff_says_what_changed_and_why(before: str, slower: str, capsys: Printed) -> None:
    assert run(["diff", before, slower]) == 0
    printed = capsys.readouterr()
    text = " ".join(printed.out.split())
    assert "The largest contribution: private key, +3." in text
    assert "slower" in text
    assert run(["diff", before, slower, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["schema"] == "ssllatency-diff/1"
    assert fields["largest_contribution"] == "private_key"
    assert fields["handshake"]["verdict"] == "slower"
    rows = {(row["kind"], row["name"], row["outcome"]): row["changes"] for row in fields["rows"]}
    assert rows["part", "rest", "success"]["mean"]["verdict"] == "no change beyond noise"
    whole = fields["handshake"]["after"] - fields["handshake"]["before"]
    assert sum(one["change_ns"] for one in fields["contributions"]) == pytest.approx(whole, rel=1e-4)


def test_diff_of_the_same_finds_nothing(before: str, same: str, capsys: Printed) -> None:
    assert run(["diff", before, same, "--fail-over", "0%"]) == 0
    printed = capsys.readouterr()
    assert ": no change beyond noise." in " ".join(printed.out.split())
    assert " slower" not in printed.out
    assert "largest contribution" not in printed.out
    assert printed.err == ""


@pytest.mark.parametrize(("threshold", "status"), [("10%", 3), ("200", 3), ("1000 %", 0)])
def test_fail_over(before: str, slower: str, capsys: Printed, threshold: str, status: int) -> None:
    assert run(["diff", before, slower, "--json", "--fail-over", threshold]) == status
    said = capsys.readouterr().err.splitlines()
    assert bool(said) == (status == 3)
    if threshold == "10%":
        assert said[0].startswith("ssllatency: successful handshakes, wall: mean +1")
        assert said[0].endswith("% slower, more than 10 %.")
        assert said[1].startswith("ssllatency: rsa_ossl_private_encrypt, success: mean +")


def test_improvement_is_no_failure(before: str, slower: str, capsys: Printed) -> None:
    assert run(["diff", slower, before, "--fail-over", "0"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", ["x", "-5%", "10 percent", "%", ""])
def test_a_threshold_is_a_percentage(before: str, words: str, capsys: Printed) -> None:
    assert run(["diff", before, before, f"--fail-over={words}"]) == 2
    assert "isn't a percentage like 10%" in capsys.readouterr().err


def test_a_help_page_names_the_status(capsys: Printed) -> None:
    assert run(["diff", "--help"]) == 0
    assert "3 slower than --fail-over" in " ".join(capsys.readouterr().out.split())


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero", "/dev/null"):
        with pytest.raises(SsllatencyError, match=f"{name} isn't a regular file: - reads standard input"):
            read(name)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], 1),
        (["--at", "2126-01-01T00:00:00Z"], 1),
        (["--at", "2030-01-31T12:00:10Z"], 0),  # it goes back so far
        (["--at", "2030-01-31T11:59:00Z"], None),
    ],
)
def test_the_folder_of_watch_has_the_recording_of_a_time(
    tmp_path: Path, capsys: Printed, options: list[str], expected: int | None
) -> None:
    names = "ssllatency-20300131T120100Z.jsonl", "ssllatency-20300201T120100Z.jsonl"
    files = [kept(tmp_path, name, recording_of(number + 1, host=f"web{number}")) for number, name in enumerate(names)]
    assert run(["report", str(tmp_path), *options]) == (1 if expected is None else 0)
    printed = capsys.readouterr()
    if expected is None:
        assert "has no recording of that time, nor of before: the first is from 2030-01-31T12:00:00" in printed.err
    else:
        assert f"{files[expected]} is from 2030-01-31T12:00:00" in printed.err
        assert printed.out


def test_a_time_chooses_in_a_folder_alone(before: str, capsys: Printed) -> None:
    assert run(["report", before, "--at", "1h"]) == 2
    assert "--at chooses among the recordings of a folder" in capsys.readouterr().err


def test_a_pipe_that_the_shell_has_opened_is_read(before: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(Path(before).read_bytes())
    assert len(read(f"/dev/fd/{reading}").intervals) == len(read(before).intervals)
    os.close(reading)


def test_a_file_is_read_within_a_bound_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "sparse.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(recordings, "MOST_BYTES", 1 << 20)
    with pytest.raises(SsllatencyError, match=r"sparse\.jsonl is larger than 1 MiB: record with longer intervals"):
        read(str(tmp_path / "sparse.jsonl"))


def test_a_file_that_is_none_is_named(before: str, tmp_path: Path, capsys: Printed) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("garbage\n")
    for command in (
        ["report", str(wrong)],
        ["diff", before, str(wrong)],
        ["merge", before, str(wrong), "-o", str(tmp_path / "m")],
    ):
        assert run(command) == 1
        assert f"{wrong}: this is not a measurement that ssllatency can read: " in capsys.readouterr().err
