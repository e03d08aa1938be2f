# SPDX-License-Identifier: Apache-2.0
"""The counts beside the rows of handshakes: of each process, and of all together where that is wanted."""

from __future__ import annotations

from ctypes import Structure
from typing import Any

import pytest

from ssllatency import abi
from ssllatency.engines.sessions.handshake_counts import TallyTables
from ssllatency.model.handshakes import Label, Tallies


class Tables:
    """The maps of an object in which two processes have shaken hands, some of them counted label by label."""

    def __init__(self, pairs: dict[bytes, bytes] | None = None) -> None:
        self._pairs = pairs or {}

    def map(self, name: str, _key_size: int, _value_size: int) -> Tables:
        keys = [(abi.MixKey(tgid=pid, label=abi.Label.VERSION, value=0x0304), count) for pid, count in ((7, 5), (8, 3))]
        together = abi.CombinationKey(tgid=7, known=1 << abi.Label.VERSION | 1 << abi.Label.RESUMED)
        together.values[abi.Label.VERSION], together.values[abi.Label.RESUMED] = 0x0304, 1
        counts: dict[str, list[tuple[Structure, int]]] = {"mix": keys, "combinations": [(together, 10)]}
        return Tables({bytes(key): count.to_bytes(8, "little") for key, count in counts.get(name, ())})

    def items(self) -> list[tuple[bytes, bytes]]:
        return list(self._pairs.items())


@pytest.mark.parametrize("totals", [False, True])
def test_those_of_all_are_made_where_they_are_wanted(*, totals: bool) -> None:
    loaded: Any = Tables()
    tables = TallyTables(loaded, totals=totals)
    none: Any = None
    by_process, total = tables.read(lambda _: none)
    assert {pid: tallies.mix for pid, tallies in by_process.items()} == {
        7: {Label.VERSION: {"TLSv1.3": 15}, Label.RESUMED: {"yes": 10}},
        8: {Label.VERSION: {"TLSv1.3": 3}},
    }
    assert total == Tallies((), (), {Label.VERSION: {"TLSv1.3": 18}, Label.RESUMED: {"yes": 10}} if totals else {})
    again = tables.read(lambda _: none)
    assert (again[0] is by_process, again[1] is total) == (True, True)
