# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: private, and through nobody's link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.measured.recordings import recording_of
from tests.parameters import slow_except

from ssllatency.cli.command_line import run
from ssllatency.errors import SsllatencyError
from ssllatency.output import files as output_files
from ssllatency.output.recordings import Writer
from ssllatency.reports.documents.recording import to_lines

LIBSSL = "/usr/lib/x86_64-linux-gnu/libssl.so.3"
Command = Callable[[str], int]


@pytest.fixture(params=slow_except(("report --html", "script -o", "merge --force -o"), "merge --force -o"))
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    """Runs a command that writes its output to the file that it is given."""
    kept = [tmp_path / f"kept{number}.jsonl" for number in (1, 2)]
    for number, file in enumerate(kept):
        file.write_text("".join(to_lines(recording_of(number, host=f"web{number}"), by_process=True)))
    first, second = map(str, kept)
    words = {"report": ["report", first, "--html"], "script": ["script", LIBSSL, "-o"]}
    chosen = words.get(request.param.split()[0], ["merge", first, second, "--force", "-o"])
    return lambda name: run([*chosen, name])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "outputs"
    made.mkdir()
    return made


def test_an_output_is_for_its_owner_alone(command: Command, folder: Path) -> None:
    output = folder / "output"
    for _ in range(2):
        assert command(str(output)) == 0
        assert stat.S_IMODE(output.stat().st_mode) == 0o600
        assert output.stat().st_size > 100
        assert list(folder.iterdir()) == [output]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(command: Command, folder: Path, capsys: pytest.CaptureFixture[str], there: bool) -> None:
    """Somebody who knows where root will write has put it there."""
    secret, output = folder / "secret", folder / "output"
    if there:
        secret.write_text("precious")
    output.symlink_to(secret)
    assert command(str(output)) == 1
    assert capsys.readouterr().err == f"ssllatency: {output} can't be written: it is a symbolic link, which isn't followed.\n"
    assert secret.exists() == there
    assert not there or secret.read_text() == "precious"
    assert output.is_symlink()


def test_another_name_of_a_file_keeps_its_content(command: Command, folder: Path) -> None:
    precious, output = folder / "precious", folder / "output"
    precious.write_text("precious")
    output.hardlink_to(precious)
    assert command(str(output)) == 0
    assert precious.read_text() == "precious"
    assert output.stat().st_size > 100


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_stays(command: Command, folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    output = folder / "output"
    if kind == "folder":
        output.mkdir()
    else:
        os.mkfifo(output)
    assert command(str(output)) == 1
    assert capsys.readouterr().err.endswith("output can't be written: it is not a regular file.\n")
    assert list(folder.iterdir()) == [output]


def test_devices_are_written_to_and_stay(command: Command) -> None:
    before = os.lstat("/dev/null")
    assert command("/dev/null") == 0
    assert os.path.samestat(os.lstat("/dev/null"), before)


def test_a_recording_is_new_or_refused(folder: Path) -> None:
    output, victim = folder / "output", folder / "victim"
    output.symlink_to(victim)
    with pytest.raises(SsllatencyError, match="is there already"):
        Writer(str(output))
    assert not victim.exists()


def test_nothing_is_left_of_what_could_not_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = folder / "output"
    output.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(SsllatencyError, match="No space left"):
        output_files.write(str(output), "new")
    with pytest.raises(OSError, match="No space left"):
        output_files.create(str(output), replace=True)
    assert output.read_text() == "old"
    assert list(folder.iterdir()) == [output]


def test_what_is_not_whole_has_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing of it stays where we are killed."""
    linked, link = [], os.link

    def noted(*words: str, **more: int) -> None:
        linked.append([path.name for path in folder.iterdir()])
        link(*words, **more)

    monkeypatch.setattr(os, "link", noted)
    output = folder / "output"
    output_files.write(str(output), "first")
    output_files.write(str(output), "second")
    assert linked[:2] == [[], ["output"]]
    assert output.read_text() == "second"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert list(folder.iterdir()) == [output]


@pytest.mark.parametrize("call", ["open", "link"])
def test_a_file_system_without_files_that_have_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    opened = os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if call == "open" and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return opened(path, flags, *mode)

    def refuse_link(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "link", refuse_link)
    output = folder / "output"
    for text in ("first", "second"):
        output_files.write(str(output), text)
        assert output.read_text() == text
    assert list(folder.iterdir()) == [output]
