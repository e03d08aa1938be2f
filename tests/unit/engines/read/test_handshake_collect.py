# SPDX-License-Identifier: Apache-2.0
"""From the records of handshakes to the model."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.engines.read.handshakes import Rows, single
from ssllatency.model.handshakes import Ending, Label, Part
from ssllatency.openssl.names.names import Names


def names_of(_: int) -> Names:
    return Names()


def rows() -> Rows:
    return Rows({0: frozenset({Label.SIGNATURE})}, lambda _: "server")


def test_a_single_has_the_parts_of_every_handshake_though_they_took_no_time() -> None:
    raw = abi.Single(ended_ns=2_000_000_000, tgid=7)
    raw.parts[abi.Part.WALL] = raw.parts[abi.Part.CALLS] = raw.parts[abi.Part.PRIVATE_KEY] = 50
    raw.parts[abi.Part.ON_CPU] = 40
    made = single(raw, rows(), names_of, 1_000_000_000)
    assert made.parts == {Part.WALL: 50, Part.CALLS: 50, Part.PRIVATE_KEY: 50, Part.REST: 0, Part.ON_CPU: 40}
    assert (made.ended_s, made.pid, made.ending, made.reason) == (3, 7, Ending.SUCCESS, "")


def labels(values: dict[abi.Label, int], library: int = 0) -> abi.Labels:
    """A handshake of which these labels are known."""
    key = abi.Labels(known=sum(1 << label for label in values), library=library)
    for label, value in values.items():
        key.values[label] = value
    return key


def test_labels_that_are_not_there_and_those_that_are_not_known() -> None:
    key = labels({abi.Label.VERSION: 0x0304, abi.Label.ROLE: 1, abi.Label.PROCESS: 7})
    assert rows().labels(key, tuple(Label), names_of) == {
        Label.VERSION: "TLSv1.3",
        Label.CIPHER: None,
        Label.RESUMED: None,
        Label.GROUP: None,
        Label.SIGNATURE: "none",
        Label.CLIENT_CERTIFICATE: None,
        Label.ROLE: "server",
        Label.PROCESS: "server(7)",
    }


def test_extremes_are_each_parts_own_until_they_are_replaced() -> None:
    reader, row = rows(), abi.HandshakeRow()
    for part, (least, most) in {abi.Part.WALL: (5, 9), abi.Part.CALLS: (1, 3)}.items():
        times = row.parts[part]
        times.exponential[0] = 1
        times.minimum[0] = 1 << abi.Geometry.EXTREME_BITS | (1 << abi.Geometry.EXTREME_BITS) - 1 - least
        times.maximum[0] = 1 << abi.Geometry.EXTREME_BITS | most
    (group,) = reader.groups([(bytes(abi.Labels()), bytes(row))], (), names_of, 1)
    found = {part: (times.min_ns, times.max_ns) for part, times in group.parts.items()}
    assert found == {Part.WALL: (5, 9), Part.CALLS: (1, 3)}
    assert reader.groups([(bytes(abi.Labels()), bytes(row))], (), names_of, 2) == (group,)


def row_of(count: int, *, torn: bool = False) -> bytes:
    """So many handshakes of which nothing is known but that they were; `torn`: one more of which only the wall is counted."""
    row = abi.HandshakeRow()
    for part in (abi.Part.WALL, abi.Part.CALLS, abi.Part.REST):
        row.parts[part].exponential[0] = count + (torn and part == abi.Part.WALL)
        row.parts[part].total_ns = 100 * count
    return bytes(row)


def test_rows_that_read_alike_are_one_group() -> None:
    """The kernel tells them apart by the library, and by whether there was a place to read a group from."""
    pairs = [(bytes(labels({abi.Label.VERSION: 0x0304}, number)), row_of(number + 1)) for number in range(3)]
    (group,) = rows().groups(pairs, (Label.VERSION,), names_of, 1)
    assert (group.labels, group.count) == ({Label.VERSION: "TLSv1.3"}, 1 + 2 + 3)


def test_a_row_that_was_read_while_it_was_added_to_does_not_add_up() -> None:
    key = bytes(abi.Labels())
    for torn in (False, True):
        (group,) = rows().groups([(key, row_of(5, torn=torn))], (), names_of, 1)
        assert group.adds_up == (not torn)
