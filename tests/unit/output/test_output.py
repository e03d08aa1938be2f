# SPDX-License-Identifier: Apache-2.0
"""Lines to a reader that is slow, stuck, or gone; durations as they are typed."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

import pytest

from ssllatency.cli.options import duration_ns
from ssllatency.output.stream import Output

LINES = [f"line {number} \N{GREEK SMALL LETTER MU}\n" for number in range(30_000)]
TEXT = "".join(LINES)


def never() -> bool:
    return False


def test_a_slow_reader_gets_everything() -> None:
    reading, writing = os.pipe()
    got: list[bytes] = []
    with os.fdopen(reading, "rb") as reader:
        thread = threading.Thread(target=lambda: got.append(reader.read()))
        thread.start()
        assert Output(writing, never).write(LINES) == len(LINES)
        os.close(writing)
        thread.join()
    assert got == [TEXT.encode()]


def test_a_file_gets_everything(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("wb") as file:
        output = Output(file.fileno(), never)
        output.check()
        assert output.write(LINES) == len(LINES)
        assert output.write([]) == 0
    assert (tmp_path / "lines").read_text() == TEXT


def test_a_stuck_reader_is_given_up_when_asked_to() -> None:
    reading, writing = os.pipe()
    answers = iter([False, True])
    written = Output(writing, lambda: next(answers)).write(LINES)
    assert next(answers, None) is None
    os.close(writing)
    with os.fdopen(reading, "rb") as reader:
        read = reader.read()
    assert TEXT.encode().startswith(read)
    assert 0 < written == read.count(b"\n") < len(LINES)


def test_a_reader_that_has_gone_is_noticed_with_nothing_to_write() -> None:
    reading, writing = os.pipe()
    output = Output(writing, never)
    output.check()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        output.check()
    with pytest.raises(BrokenPipeError):
        output.write(["line\n"])
    os.close(writing)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("50ns", 50), ("200us", 200_000), ("1.5ms", 1_500_000), ("2s", 2 * 10**9), ("1m1s", 61 * 10**9), ("0s", 0)],
)
def test_a_duration_has_its_unit(text: str, wanted: int) -> None:
    assert duration_ns(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "5", "ms", "1 ms", "-1ms", "1e3ms", "1w", "nan s", "\N{ARABIC-INDIC DIGIT ONE}ms", "9" * 20 + "s"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration_ns(text)
