# SPDX-License-Identifier: Apache-2.0
"""JSON that takes a lot of memory is refused before any of it is parsed, and what is parsed takes no more than was reckoned."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from ssllatency import bounded_json
from ssllatency.bounded_json import most_bytes, parsed
from ssllatency.errors import SsllatencyError
from ssllatency.reports.documents.document import from_json
from ssllatency.reports.documents.recording import SCHEMA
from ssllatency.reports.documents.recording_reading import from_text

TIMES = 20_000
HOSTILE = {
    "empty lists": "[" + ",".join(["[]"] * TIMES) + "]",
    "empty objects": "[" + ",".join(["{}"] * TIMES) + "]",
    "objects of one member": "[" + ",".join(['{"":0}'] * TIMES) + "]",
    "objects of six members": "[" + ",".join(['{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0}'] * TIMES) + "]",
    "one object": "{" + ",".join(f'"{number}":0' for number in range(TIMES)) + "}",
    "lists in lists": "[" * 500 + "]" * 500,
    "lists of a number": "[" + ",".join(["[0]"] * TIMES) + "]",
    "lists of five numbers": "[" + ",".join(["[0,0,0,0,0]"] * TIMES) + "]",
    "numbers": json.dumps([1e-9 * number for number in range(TIMES)]),
    "short strings": json.dumps([f"{number}" for number in range(TIMES)]),
    "wide strings": json.dumps([f"\U0001f600{number}" for number in range(TIMES)], ensure_ascii=False),
    "escapes": json.dumps([f"\U0001f600{number}" for number in range(TIMES)]),
    "a long integer": "[" + ",".join(["9" * 300] * (TIMES // 100)) + "]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_takes_no_more_than_was_reckoned(text: str) -> None:
    assert min(peak_of(text) for _ in range(3)) <= most_bytes(text) + 4096


def peak_of(text: str) -> int:
    """The most bytes that are taken while it is parsed, by threads that another test has left behind as well."""
    tracemalloc.start()
    try:
        value = parsed(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value is not None
    return peak


def test_too_much_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[" + "{}," * (16 << 20) + "{}]"
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it was parsed"))
    for read in (from_json, lambda text: from_text(text, "x")):
        with pytest.raises(SsllatencyError, match="more than 1 GiB of memory"):
            read(text)


def test_a_recording_is_bounded_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    header = json.dumps({"schema": SCHEMA, "runs": []})
    monkeypatch.setattr(bounded_json, "MOST_BYTES", most_bytes(header))
    with pytest.raises(SsllatencyError, match=r"x, line 2: .*run must be there"):
        from_text(f"{header}\n{{}}\n", "x")
    with pytest.raises(SsllatencyError, match=r"x, line 2: this would take more than"):
        from_text(f"{header}\n{'[],' * len(header)}\n", "x")
