# SPDX-License-Identifier: Apache-2.0
"""The labels of a handshake, read and counted in the kernel, from an SSL that lies in the test's own memory."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable

import pytest

from ssllatency import abi
from ssllatency.abi import ClientCertificate, Label, PlaceOf
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.read.tallies import single_labels
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

LIBRARY = 3  # whose number the kernel notes beside codes of its own
TLS1_2, TLS1_3 = 0x0303, 0x0304
VERIFY_PEER = 1
OWN_NAMES = {Label.CIPHER, Label.GROUP, Label.SIGNATURE}

Values = dict[Label, int]
Counted = dict[tuple[Label, int], int]  # the value, by label and library
Read = Callable[[dict[PlaceOf, int], bool], tuple[Values, Counted]]


class LabelsProbe(ctypes.Structure):
    _fields_ = (("ssl", ctypes.c_uint64), ("labels", abi.Labels))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("labels_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def read(content: bytes) -> Read:
    """What is read of the SSL of a server, or of a client, with these values in its places, each of 8 bytes and one after the
    other, and what is counted."""

    def reading(places: dict[PlaceOf, int], server: bool) -> tuple[Values, Counted]:
        ssl = (ctypes.c_uint64 * (len(places) + 1))(*places.values(), server)
        library = abi.Library(server=8 * len(places))
        for number, place in enumerate(places):
            library.paths[place].offsets[0], library.paths[place].length, library.paths[place].size = 8 * number, 1, 8
        with BpfObject(content, "labels_probe") as opened:
            for table in SMALL_TABLES:
                opened.resize_map(table, SMALL)
            opened.load()
            opened.map("libraries", 4, ctypes.sizeof(abi.Library)).update(ctypes.c_uint32(0), library)
            probe = opened.live_section(".data.probe", LabelsProbe)
            probe.ssl, probe.labels.library = ctypes.addressof(ssl), LIBRARY
            run(opened.program_fd("run_labels"))
            labels = abi.Labels.from_buffer_copy(bytes(probe.labels))
            counted = single_labels(opened.map("combinations", ctypes.sizeof(abi.CombinationKey), 8).items())
            assert list(opened.map("mix", ctypes.sizeof(abi.MixKey), 8).items()) == []
        known = {Label(number): labels.values[number] for number in range(Label.LABELS) if labels.known >> number & 1}
        assert {labels.values[number] for number in range(Label.LABELS) if number not in known} <= {0}
        keys = [abi.MixKey.from_buffer_copy(key) for key, _ in counted]
        assert {int.from_bytes(count, "little") for _, count in counted} <= {1}
        assert {key.tgid for key in keys} <= {7}
        return known, {(Label(key.label), key.library): key.value for key in keys}

    return reading


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        ({}, {}),
        ({PlaceOf.VERSION: TLS1_3}, {Label.VERSION: TLS1_3}),
        ({PlaceOf.VERSION: 0x7FFF_0000 | TLS1_3}, {Label.VERSION: TLS1_3}),  # a code point has 16 bits
        ({PlaceOf.CIPHER: 0x0300_1301}, {Label.CIPHER: 0x0300_1301}),
        ({PlaceOf.RESUMED: 0}, {Label.RESUMED: 0}),
        ({PlaceOf.RESUMED: 64}, {Label.RESUMED: 1}),
        ({PlaceOf.SIGNATURE: 0x0804}, {Label.SIGNATURE: 0x0804}),
        ({PlaceOf.GROUP_TLS13: 29}, {}),  # whether a key was agreed on isn't known
        (
            {PlaceOf.VERSION: TLS1_3, PlaceOf.DID_KEX: 1, PlaceOf.GROUP_TLS13: 29, PlaceOf.GROUP_SESSION: 23},
            {Label.VERSION: TLS1_3, Label.GROUP: 29},
        ),
        ({PlaceOf.VERSION: TLS1_3, PlaceOf.DID_KEX: 0, PlaceOf.GROUP_TLS13: 29}, {Label.VERSION: TLS1_3}),
        (
            {PlaceOf.VERSION: TLS1_2, PlaceOf.RESUMED: 0, PlaceOf.DID_KEX: 0, PlaceOf.GROUP_SESSION: 23},
            {Label.VERSION: TLS1_2, Label.RESUMED: 0, Label.GROUP: 23},
        ),
        (
            {PlaceOf.VERSION: TLS1_2, PlaceOf.RESUMED: 1, PlaceOf.DID_KEX: 0, PlaceOf.GROUP_SESSION: 23},
            {Label.VERSION: TLS1_2, Label.RESUMED: 1},  # the group is that of the handshake before
        ),
        ({PlaceOf.VERIFY_MODE: 0}, {Label.CLIENT_CERTIFICATE: ClientCertificate.NOT_ASKED}),
        ({PlaceOf.VERIFY_MODE: VERIFY_PEER}, {}),
        (
            {PlaceOf.VERIFY_MODE: VERIFY_PEER, PlaceOf.PEER_CERTIFICATE: 0},
            {Label.CLIENT_CERTIFICATE: ClientCertificate.NOT_GIVEN},
        ),
        (
            {PlaceOf.VERIFY_MODE: VERIFY_PEER, PlaceOf.PEER_CERTIFICATE: 1 << 32},
            {Label.CLIENT_CERTIFICATE: ClientCertificate.GIVEN},
        ),
    ],
)
def test_each_label_is_read_from_its_places_and_counted(
    read: Read,
    places: dict[PlaceOf, int],
    labels: Values,
) -> None:
    known, counted = read(places, True)
    assert known == labels
    assert counted == {(label, LIBRARY if label in OWN_NAMES else 0): value for label, value in labels.items()}


@pytest.mark.parametrize("mode", [0, VERIFY_PEER])
def test_a_client_asks_for_no_clients_certificate(read: Read, mode: int) -> None:
    """The one that it may check is its server's."""
    assert read({PlaceOf.VERIFY_MODE: mode, PlaceOf.PEER_CERTIFICATE: 1 << 32}, False) == ({}, {})


def test_labels_are_counted_together_as_long_as_there_is_room_and_one_by_one_from_then_on(content: bytes) -> None:
    versions = (TLS1_2, TLS1_3, TLS1_2, TLS1_3, TLS1_3)
    ssl = (ctypes.c_uint64 * 2)(0, 1)
    library = abi.Library(server=8)
    for place in (PlaceOf.VERSION, PlaceOf.RESUMED):
        library.paths[place].offsets[0], library.paths[place].length, library.paths[place].size = 0, 1, 8
    with BpfObject(content, "labels_probe") as opened:
        for table in (*SMALL_TABLES, "keys"):
            opened.resize_map(table, SMALL)
        opened.resize_map("combinations", 1)
        opened.load()
        opened.map("libraries", 4, ctypes.sizeof(abi.Library)).update(ctypes.c_uint32(0), library)
        opened.live_section(".data.probe", LabelsProbe).ssl = ctypes.addressof(ssl)
        for version in versions:
            ssl[0] = version
            run(opened.program_fd("run_labels"))
        combinations = opened.map("combinations", ctypes.sizeof(abi.CombinationKey), 8)
        mix = opened.map("mix", ctypes.sizeof(abi.MixKey), 8)
        [(raw_key, raw_count)] = combinations.items()
        together = abi.CombinationKey.from_buffer_copy(raw_key)
        assert (together.tgid, together.values[Label.VERSION], int.from_bytes(raw_count, "little")) == (7, TLS1_2, 2)
        counted: Counter[tuple[int, int]] = Counter()
        for raw_key, raw_count in (*mix.items(), *single_labels(combinations.items())):
            key = abi.MixKey.from_buffer_copy(raw_key)
            counted[Label(key.label), key.value] += int.from_bytes(raw_count, "little")
        assert not opened.live_section(".data.counters", abi.Counters).map_full
    assert counted == {(Label.VERSION, TLS1_2): 2, (Label.VERSION, TLS1_3): 3, (Label.RESUMED, 1): 5}
