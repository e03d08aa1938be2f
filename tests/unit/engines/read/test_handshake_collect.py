# SPDX-License-Identifier: Apache-2.0
"""From the records of handshakes to the model."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace

import pytest
from tests.fixtures.rows import fill_bucket

from ssllatency import abi
from ssllatency.engines.read.collect import Extremes
from ssllatency.engines.read.handshake_rows import Rows, single
from ssllatency.engines.read.tallies import TallyRows, in_order, single_labels
from ssllatency.engines.read.who import Texts, text_words
from ssllatency.model.arithmetic.handshake_sums import add_tallies
from ssllatency.model.handshakes import WHO, Ending, Label, Part
from ssllatency.model.process_label import ProcessLabel
from ssllatency.stacks.names import Names


def names_of(_: int) -> Names:
    return Names()


TEXTS = {1: (abi.TextKind.SERVER_NAME, b"a.example"), 2: (abi.TextKind.PROTOCOL, b"h2"), 3: (abi.TextKind.LOCAL, b"")}


def text(kind: abi.TextKind, content: bytes, length: int | None = None, *, cut: bool = False) -> abi.Text:
    made = abi.Text(kind=kind, length=len(content) if length is None else length, cut=cut)
    ctypes.memmove(made.bytes, content, len(content))
    return made


def rows(*by: Label) -> Rows:
    table = [(bytes(text(*content)), number.to_bytes(4, "little")) for number, content in TEXTS.items()]
    return Rows({0: frozenset({Label.SIGNATURE})}, lambda _: "server", Texts(lambda: table), by)


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
        Label.PROCESS: ProcessLabel(7, "server"),
        Label.SNI: None,
        Label.ALPN: None,
        Label.PORT: None,
        Label.PEER: None,
    }


def test_labels_of_who_shook_hands() -> None:
    """What isn't there is something else than what isn't known, and than a number that the table of texts doesn't have."""
    numbers = {abi.Label.SNI: 1, abi.Label.ALPN: 2, abi.Label.PORT: 443, abi.Label.PEER: 3}
    found = rows().labels(labels(numbers), WHO, names_of)
    assert found == {Label.SNI: "a.example", Label.ALPN: "h2", Label.PORT: "443", Label.PEER: "unix socket"}
    nothing = dict.fromkeys(numbers, 0)
    assert rows().labels(labels(nothing), WHO, names_of) == {
        **dict.fromkeys((Label.SNI, Label.ALPN, Label.PORT, Label.PEER), "none")
    }
    assert rows().labels(labels({}), WHO, names_of) == dict.fromkeys(WHO)
    assert rows().labels(labels({abi.Label.SNI: 9}), (Label.SNI,), names_of) == {Label.SNI: None}


def test_a_single_tells_who_it_was_only_where_that_was_asked_for() -> None:
    raw = abi.Single(labels=labels({abi.Label.SNI: 1, abi.Label.PORT: 443}))
    for by in ((), (Label.PORT,), WHO):
        found = single(raw, rows(*by), names_of, 0).labels
        assert set(found) & set(WHO) == set(by)
        assert found.get(Label.PORT) == ("443" if by else None)


@pytest.mark.parametrize(("content", "words"), [
    (text(abi.TextKind.SERVER_NAME, b"www.xn--bcher-kva.example"), "www.xn--bcher-kva.example"),
    (text(abi.TextKind.SERVER_NAME, b"\x1b[2J\r\n\x00\x7f"), r"\x1b[2J\x0d\x0a\x00\x7f"),
    (text(abi.TextKind.SERVER_NAME, "bücher ‮".encode()), r"b\xc3\xbccher\x20\xe2\x80\xae"),
    (text(abi.TextKind.SERVER_NAME, b"\xff\xfe\\x41"), r"\xff\xfe\x5cx41"),
    (text(abi.TextKind.SERVER_NAME, b"a" * 64, cut=True), "a" * 64 + "…"),
    (text(abi.TextKind.SERVER_NAME, b"none"), '"none"'),
    (text(abi.TextKind.SERVER_NAME, b'"none"'), r"\x22none\x22"),
    (text(abi.TextKind.SERVER_NAME, b"unknown"), '"unknown"'),
    (text(abi.TextKind.PROTOCOL, b"other"), '"other"'),
    (text(abi.TextKind.PROTOCOL, b"http/1.1"), "http/1.1"),
    (text(abi.TextKind.IPV4, bytes((192, 0, 2, 0)), 24), "192.0.2.0/24"),
    (text(abi.TextKind.IPV6, bytes((0x20, 1, 0xD, 0xB8, 0, 1, 2)) + bytes(9), 56), "2001:db8:1:200::/56"),
])  # fmt: skip
def test_texts_are_harmless_and_differ_from_what_reports_say_themselves(content: abi.Text, words: str) -> None:
    assert text_words(content) == words
    assert words.isprintable()


def test_extremes_are_each_parts_own_until_they_are_replaced() -> None:
    reader, row = rows(), abi.HandshakeRow()
    for part, (least, most) in {abi.Part.WALL: (5, 9), abi.Part.CALLS: (1, 3)}.items():
        times = row.parts[part]
        fill_bucket(times, 0, 1)
        times.minimum[0] = 1 << abi.Geometry.EXTREME_BITS | (1 << abi.Geometry.EXTREME_BITS) - 1 - least
        times.maximum[0] = 1 << abi.Geometry.EXTREME_BITS | most
    (group,) = reader.groups([(bytes(abi.Labels()), bytes(row))], names_of, 1)
    found = {part: (times.min_ns, times.max_ns) for part, times in group.parts.items()}
    assert found == {Part.WALL: (5, 9), Part.CALLS: (1, 3)}
    assert reader.groups([(bytes(abi.Labels()), bytes(row))], names_of, 2) == (group,)


def test_without_extremes_a_row_is_the_same_group_in_later_intervals() -> None:
    reader, row = rows(), abi.HandshakeRow()
    times = row.parts[abi.Part.WALL]
    fill_bucket(times, 0, 1)
    times.underflow = 1
    times.maximum[0] = 1 << abi.Geometry.EXTREME_BITS | 9
    pairs = [(bytes(abi.Labels()), bytes(row))]
    for wanted, same in ((True, False), (False, True)):
        reader.extremes = Extremes(wanted)
        before = reader.groups(pairs, names_of, 1)
        reader.extremes = Extremes(wanted)
        (later,) = reader.groups(pairs, names_of, 2)
        assert (later is before[0]) is same
        assert (later.parts[Part.WALL].max_ns, later.count) == (None, 2)


def pair(key: ctypes.Structure, value: ctypes.Structure | ctypes.c_uint64) -> tuple[bytes, bytes]:
    return bytes(key), bytes(value)


def test_tallies_are_of_processes_and_add_up_to_those_of_all() -> None:
    sign = abi.KeyOperation.SIGN
    causes = [
        pair(abi.CauseKey(tgid=pid, library=library, ending=abi.Ending.FAILURE, state=0xFFFF), abi.Tally(count, 10 * count))
        for pid, library, count in ((7, 0, 1), (7, 1, 2), (8, 0, 4), (0, 0, 8))
    ]
    keys = [
        pair(abi.KeyUse(tgid=7, operation=sign), abi.Tally(3, 30)),
        pair(abi.KeyUse(tgid=8, operation=sign), abi.Tally(5, 7)),
    ]
    mix = [
        pair(abi.MixKey(tgid=pid, label=abi.Label.VERSION, value=version), ctypes.c_uint64(count))
        for pid, version, count in ((7, 0x303, 1), (7, 0x304, 2), (9, 0x303, 4))
    ]
    found = TallyRows().read(causes, keys, mix, [], names_of)
    assert {pid: [cause.count for cause in of.causes] for pid, of in found.items()} == {7: [3], 8: [4], 9: [], 0: [8]}
    assert {pid: [(use.count, use.total_ns) for use in of.keys] for pid, of in found.items() if of.keys} == {
        7: [(3, 30)],
        8: [(5, 7)],
    }
    assert found[7].mix == {Label.VERSION: {"TLSv1.2": 1, "TLSv1.3": 2}}
    whole = in_order(add_tallies(found.values()))
    assert [(cause.count, cause.total_ns) for cause in whole.causes] == [(15, 150)]
    assert [(use.operation, use.count, use.total_ns) for use in whole.keys] == [("sign", 8, 37)]
    assert list(whole.mix[Label.VERSION].items()) == [("TLSv1.2", 5), ("TLSv1.3", 2)]


def test_tallies_read_again_are_those_that_are_read_first() -> None:
    """What the keys say is kept, and the counts aren't: also of keys that come, go, and come again."""
    chance, rows = random.Random(5), TallyRows()
    pids, versions = (7, 8), (0x303, 0x304)
    for _ in range(50):
        causes = [
            pair(
                abi.CauseKey(tgid=pid, ending=abi.Ending.FAILURE, end=end),
                abi.Tally(chance.randrange(1, 9), chance.randrange(9)),
            )
            for pid in pids
            for end in (abi.End.CLOSED, abi.End.NONE)
            if chance.random() < 0.7
        ]
        keys = [
            pair(abi.KeyUse(tgid=pid, operation=abi.KeyOperation.SIGN, library=library), abi.Tally(chance.randrange(1, 9), 3))
            for pid in pids
            for library in (0, 1)
            if chance.random() < 0.7
        ]
        mix = [
            pair(abi.MixKey(tgid=pid, label=abi.Label.VERSION, value=version), ctypes.c_uint64(chance.randrange(1, 9)))
            for pid in pids
            for version in versions
            if chance.random() < 0.7
        ]
        together = []
        for pid in pids:
            key = abi.CombinationKey(tgid=pid, library=1, known=1 << abi.Label.VERSION | 1 << abi.Label.CIPHER)
            key.values[abi.Label.VERSION], key.values[abi.Label.CIPHER] = chance.choice(versions), chance.randrange(3)
            together.append(pair(key, ctypes.c_uint64(chance.randrange(1, 9))))
        found = rows.read(causes, keys, mix, together, names_of)
        assert found == TallyRows().read(causes, keys, [*mix, *single_labels(together)], [], names_of)


def row_of(count: int, *, torn: bool = False) -> bytes:
    """So many handshakes of which nothing is known but that they were; `torn`: one more of which only the wall is counted."""
    row = abi.HandshakeRow()
    for part in (abi.Part.WALL, abi.Part.CALLS, abi.Part.REST):
        fill_bucket(row.parts[part], 0, count + (torn and part == abi.Part.WALL))
        row.parts[part].total_ns = 100 * count
    return bytes(row)


def test_rows_that_read_alike_are_one_group() -> None:
    """The kernel tells them apart by the library, and by whether there was a place to read a group from."""
    pairs = [(bytes(labels({abi.Label.VERSION: 0x0304}, number)), row_of(number + 1)) for number in range(3)]
    (group,) = rows(Label.VERSION).groups(pairs, names_of, 1)
    assert (group.labels, group.count) == ({Label.VERSION: "TLSv1.3"}, 1 + 2 + 3)


def test_a_row_tells_how_many_were_resumed_of_those_of_which_it_is_known() -> None:
    row = abi.HandshakeRow.from_buffer_copy(row_of(5))
    row.resumed, row.resumption_known = 2, 4
    (group,) = rows().groups([(bytes(abi.Labels()), bytes(row))], names_of, 1)
    assert (group.resumed, group.resumption_known, group.adds_up) == (2, 4, True)
    assert not replace(group, resumption_known=6).adds_up


def test_a_row_that_was_read_while_it_was_added_to_does_not_add_up() -> None:
    key = bytes(abi.Labels())
    for torn in (False, True):
        (group,) = rows().groups([(key, row_of(5, torn=torn))], names_of, 1)
        assert group.adds_up == (not torn)


def counted_row(*durations: int) -> bytes:
    """Of handshakes that consist of calls alone, one a bucket."""
    row = abi.HandshakeRow()
    for part in (abi.Part.WALL, abi.Part.CALLS, abi.Part.REST):
        row.parts[part].total_ns = sum(durations)
        for number in range(len(durations)):
            fill_bucket(row.parts[part], number, 1)
    return bytes(row)


def of_process(pid: int) -> bytes:
    return bytes(labels({abi.Label.PROCESS: pid}))


def test_a_row_that_has_not_changed_is_the_same_group_again() -> None:
    reader = rows(Label.PROCESS)
    pairs = [(of_process(7), counted_row(5)), (of_process(8), counted_row(5, 6))]
    before = reader.groups(pairs, names_of, 1)
    assert [id(group) for group in reader.groups(pairs, names_of, 2)] == [id(group) for group in before]
    assert reader.processes() == [(of_process(7), 7), (of_process(8), 8)]
    later = reader.groups([pairs[0], (of_process(8), counted_row(5, 6, 7))], names_of, 3)
    assert [group.count for group in later] == [3, 1]
    assert (later[1] is before[1], later[0] is before[0]) == (True, False)
    assert all(group.adds_up for group in later)


def test_a_row_of_a_process_that_has_taken_anothers_number_is_its_own() -> None:
    reader = rows(Label.PROCESS)
    reader.groups([(of_process(7), counted_row(5, 6, 7))], names_of, 1)
    assert reader.groups([], names_of, 2) == ()
    assert reader.processes() == []
    (group,) = reader.groups([(of_process(7), counted_row(9))], names_of, 3)
    assert (group.count, group.parts[Part.WALL].total_ns) == (1, 9)


def test_a_group_gets_the_name_that_was_found_later() -> None:
    names = ["", "nginx"]
    reader = Rows({}, lambda _: names[0], Texts(list), (Label.PROCESS,))
    pairs = [(of_process(7), counted_row(5))]
    assert reader.groups(pairs, names_of, 1)[0].labels == {Label.PROCESS: ProcessLabel(7, "")}
    names.pop(0)
    assert reader.groups(pairs, names_of, 2)[0].labels == {Label.PROCESS: ProcessLabel(7, "nginx")}
