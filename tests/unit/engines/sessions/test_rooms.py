# SPDX-License-Identifier: Apache-2.0
"""How much of the kernel's tables one process can fill."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.engines.attach.sites import numbered
from ssllatency.engines.sessions.trace import ROWS
from ssllatency.probes.catalogue import BY_NAME


def test_one_process_has_at_most_half_of_the_rows_of_trace() -> None:
    operations = numbered((), later=True)
    assert len(operations) <= abi.Geometry.OPERATIONS
    assert sum(len(BY_NAME[operation].outcomes) for operation in operations) <= ROWS // 2


def test_one_process_leaves_room_behind_the_table_of_calls() -> None:
    assert abi.Table.SHARE <= abi.Table.OVERFLOW * 3 // 4
