# SPDX-License-Identifier: Apache-2.0
"""Who shook hands, read in the kernel from an SSL that lies in the test's own memory, and from the test's own sockets."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.abi import Label, PlaceOf
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.read.who import Texts
from ssllatency.model.handshakes import PeerPrefix
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

TLS1_2, TLS1_3 = 0x0303, 0x0304
BIO_TYPE_SOCKET, BIO_TYPE_OF_ANOTHER = 0x505, 0x5C0
WHO = (Label.SNI, Label.ALPN, Label.PORT, Label.PEER)
_SIDE = 31  # the word of an SSL in which its side is

Places = dict[PlaceOf, int]
Told = dict[Label, str]


class WhoProbe(ctypes.Structure):
    _fields_ = (
        ("ssl", ctypes.c_uint64),
        ("server", ctypes.c_uint32),
        ("keeps", ctypes.c_uint32),
        ("in_call", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("labels", abi.Labels),
    )


class Reader:
    """The program, loaded; `asked` are the labels that it is to read."""

    def __init__(self, content: bytes, asked: tuple[Label, ...], prefix: PeerPrefix, most_texts: int) -> None:
        self._opened = BpfObject(content, "who_probe")
        who = self._opened.section(".rodata.who_config", abi.WhoConfig)
        who.labels, who.prefix4, who.prefix6 = sum(1 << label for label in asked), prefix.ipv4, prefix.ipv6
        self._opened.section(".rodata.handshake_config", abi.HandshakeConfig).most_texts = most_texts
        for table in (*SMALL_TABLES, "endpoints", "texts"):
            self._opened.resize_map(table, SMALL)
        self._opened.load()
        self._probe = self._opened.live_section(".data.probe", WhoProbe)
        self._texts = Texts(self._opened.map("texts", ctypes.sizeof(abi.Text), 4).items)

    def close(self) -> None:
        self._opened.close()

    def keep(self, places: Places, *, server: bool = True) -> None:
        """A call of this SSL comes back, and the handshake goes on."""
        self._run(places, server=server, keeps=1)

    def read(
        self,
        places: Places,
        *,
        server: bool = True,
        in_call: bool = True,
        ending: int = abi.Ending.SUCCESS,
        stack: abi.Stack = abi.Stack.OPENSSL,
    ) -> Told:
        """What is known of an SSL with these values in its places when its handshake ends; {} with OTHER: no room."""
        self._run(places, server=server, in_call=in_call, ending=ending, stack=stack)
        labels = self._probe.labels
        known = [label for label in (*WHO, Label.OTHER) if labels.known >> label & 1]
        return {label: "" if label is Label.OTHER else self._words(label, labels.values[label]) for label in known}

    def _words(self, label: Label, value: int) -> str:
        return str(value) if label is Label.PORT else str(self._texts.of(value))

    def _run(
        self,
        places: Places,
        *,
        server: bool,
        keeps: int = 0,
        in_call: bool = True,
        ending: int = 0,
        stack: abi.Stack = abi.Stack.OPENSSL,
    ) -> None:
        self._ssl = (ctypes.c_uint64 * 32)()
        self._ssl[_SIDE] = server
        library = abi.Library(stack=stack, server=8 * _SIDE)
        for place, value in places.items():
            self._ssl[place] = value
            library.paths[place].offsets[0], library.paths[place].length = 8 * place, 1
            library.paths[place].size = 4 if place is PlaceOf.BIO_TYPE else 8
        self._opened.map("libraries", 4, ctypes.sizeof(abi.Library)).update(ctypes.c_uint32(0), library)
        self._probe.ssl, self._probe.server, self._probe.keeps = _SSL, server, keeps
        self._probe.in_call, self._probe.labels.ending = in_call, ending
        ctypes.memmove(_SSL, self._ssl, ctypes.sizeof(self._ssl))
        run(self._opened.program_fd("run_who"))


_MEMORY = (ctypes.c_uint64 * 32)()
_SSL = ctypes.addressof(_MEMORY)  # always the same, as memory of SSLs is used again


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("who_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@contextmanager
def reader(content: bytes, *asked: Label, prefix: PeerPrefix | None = None, most_texts: int = 16) -> Iterator[Reader]:
    opened = Reader(content, asked or WHO, prefix or PeerPrefix(), most_texts)
    try:
        yield opened
    finally:
        opened.close()


def text(content: bytes) -> ctypes.Array[ctypes.c_char]:
    """Lies where it does as long as it is kept."""
    return ctypes.create_string_buffer(content)


def session(version: int = TLS1_3, resumed: int = 0, name: int = 0, name_in_session: int = 0) -> Places:
    return {
        PlaceOf.VERSION: version,
        PlaceOf.RESUMED: resumed,
        PlaceOf.SERVER_NAME: name,
        PlaceOf.SERVER_NAME_SESSION: name_in_session,
    }


def test_names_are_where_the_library_looks_for_them(content: bytes) -> None:
    name, other = text(b"a.example"), text(b"b.example")
    first, second = ctypes.addressof(name), ctypes.addressof(other)
    with reader(content, Label.SNI) as opened:
        assert opened.read(session(name=first)) == {Label.SNI: "a.example"}
        assert opened.read(session(resumed=1, name=first, name_in_session=second)) == {Label.SNI: "a.example"}
        assert opened.read(session(TLS1_2, 1, first, second)) == {Label.SNI: "b.example"}
        assert opened.read(session(TLS1_2, 1, first)) == {Label.SNI: "a.example"}
        assert opened.read(session(TLS1_2, 0, first, second)) == {Label.SNI: "a.example"}


def test_no_name_differs_from_a_name_that_is_not_known(content: bytes) -> None:
    failed = abi.Ending.FAILURE
    with reader(content, Label.SNI) as opened:
        assert opened.read(session()) == {Label.SNI: "none"}
        assert opened.read(session(TLS1_2)) == {Label.SNI: "none"}
        assert opened.read(session(TLS1_2, 1)) == {}  # kept in the session only where the application accepted it
        assert opened.read(session(), ending=failed) == {}  # its hello may not have been read
        assert opened.read({**session(), PlaceOf.CIPHER: 5}, ending=failed) == {Label.SNI: "none"}
        assert opened.read(session(name=8)) == {}  # no memory is there
        without = {place: value for place, value in session().items() if place is not PlaceOf.SERVER_NAME_SESSION}
        assert opened.read(without) == {}


def test_a_server_of_boringssl_has_the_name_in_one_place(content: bytes) -> None:
    name, failed, own = text(b"a.example"), abi.Ending.FAILURE, abi.Stack.BORINGSSL
    named: Places = {PlaceOf.SERVER_NAME: ctypes.addressof(name)}
    with reader(content, Label.SNI) as opened:
        assert opened.read(named, stack=own) == opened.read(named, stack=own, ending=failed) == {Label.SNI: "a.example"}
        assert opened.read({PlaceOf.SERVER_NAME: 0}, stack=own) == {Label.SNI: "none"}
        assert opened.read({PlaceOf.SERVER_NAME: 0}, stack=own, ending=failed) == {}  # its hello may not have been read
        assert opened.read(named, stack=own, server=False) == {}  # a client's is elsewhere
        assert opened.read(named) == {}


@pytest.mark.parametrize("length", [1, 63, 64, 65, 66, 67, 255])
def test_long_names_are_cut(content: bytes, length: int) -> None:
    name = text(b"n" * length)
    protocol: Places = {PlaceOf.ALPN: ctypes.addressof(name), PlaceOf.ALPN_LENGTH: length}
    due = "n" * min(length, 64) + ("…" if length > 64 else "")
    with reader(content, Label.SNI, Label.ALPN) as opened:
        told = opened.read({**session(name=ctypes.addressof(name)), **protocol})
    assert told == {Label.SNI: due, Label.ALPN: due}


def test_protocols(content: bytes) -> None:
    http = text(b"http/1.1 and what lies behind it")
    places: Places = {PlaceOf.ALPN: ctypes.addressof(http), PlaceOf.ALPN_LENGTH: 8}
    with reader(content, Label.ALPN) as opened:
        assert opened.read(places) == {Label.ALPN: "http/1.1"}
        assert opened.read({**places, PlaceOf.ALPN: 0}) == {Label.ALPN: "none"}
        assert opened.read({**places, PlaceOf.ALPN: 0}, ending=abi.Ending.ABANDONED) == {}
        assert opened.read({**places, PlaceOf.ALPN: 8}) == {}
        assert opened.read({PlaceOf.ALPN: ctypes.addressof(http)}) == {}


def test_nothing_is_read_that_is_not_asked_for(content: bytes) -> None:
    name = text(b"a.example")
    with pair() as (server, _), reader(content, Label.PORT) as opened:
        told = opened.read({**session(name=ctypes.addressof(name)), **on(server)})
        assert set(told) == {Label.PORT}
    with pair() as (server, _), reader(content, Label.SNI) as opened:
        told = opened.read({**session(name=ctypes.addressof(name)), **on(server)})
        assert set(told) == {Label.SNI}


# Sockets.


def on(plain: socket.socket | int, bio_type: int = BIO_TYPE_SOCKET) -> Places:
    descriptor = plain if isinstance(plain, int) else plain.fileno()
    return {PlaceOf.BIO_TYPE: bio_type, PlaceOf.BIO_DESCRIPTOR: descriptor}


@contextmanager
def pair(
    family: socket.AddressFamily = socket.AF_INET, listener: str = "127.0.0.1", client: str = "127.0.9.5"
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, that of the server first."""
    with socket.socket(family) as listening:
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((listener, 0))
        listening.listen()
        port = listening.getsockname()[1]
        address = ("::1" if ":" in client else "127.0.0.1", port)
        with socket.create_connection(address, source_address=(client, 0)) as near, listening.accept()[0] as far:
            yield far, near


def port_of(plain: socket.socket) -> str:
    return str(plain.getsockname()[1])


def test_the_ends_of_a_connection(content: bytes) -> None:
    with pair() as (far, near), reader(content) as opened:
        listener = {Label.PORT: port_of(far)}
        assert opened.read(on(far)) == {**listener, Label.PEER: "127.0.9.0/24"}
        assert opened.read(on(near), server=False) == {**listener, Label.PEER: "127.0.0.0/24"}


def test_ipv6(content: bytes) -> None:
    with suppress(OSError), pair(socket.AF_INET6, "::1", "::1") as (far, _), reader(content) as opened:
        assert opened.read(on(far)) == {Label.PORT: port_of(far), Label.PEER: "::/56"}


def test_ipv4_in_an_ipv6_socket_is_ipv4(content: bytes) -> None:
    with pair(socket.AF_INET6, "::", "127.0.9.5") as (far, _), reader(content) as opened:
        assert far.family is socket.AF_INET6
        assert opened.read(on(far)) == {Label.PORT: port_of(far), Label.PEER: "127.0.9.0/24"}


@pytest.mark.parametrize(("bits", "network"), [
    (32, "127.0.201.77/32"), (31, "127.0.201.76/31"), (24, "127.0.201.0/24"), (20, "127.0.192.0/20"), (17, "127.0.128.0/17"),
    (8, "127.0.0.0/8"), (1, "0.0.0.0/1"),
])  # fmt: skip
def test_no_more_than_the_network_is_kept(content: bytes, bits: int, network: str) -> None:
    with pair(client="127.0.201.77") as (far, _), reader(content, Label.PEER, prefix=PeerPrefix(ipv4=bits)) as opened:
        assert opened.read(on(far)) == {Label.PEER: network}


def test_a_connection_that_was_reset_still_tells(content: bytes) -> None:
    with pair() as (far, near), reader(content) as opened:
        port = port_of(far)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        near.close()
        with pytest.raises(ConnectionResetError):
            far.recv(1)
        assert opened.read(on(far)) == {Label.PORT: port, Label.PEER: "127.0.9.0/24"}


def test_what_is_no_connection_tells_nothing(content: bytes, tmp_path: Path) -> None:
    with reader(content) as opened, socket.socket() as unconnected, (tmp_path / "file").open("w") as file:
        assert opened.read(on(unconnected)) == {}
        assert opened.read(on(file.fileno())) == {}
        for wrong in (-1, 1 << 20, (1 << 31) - 1):
            assert opened.read(on(wrong & 0xFFFFFFFF)) == {}
    with pair() as (far, _), reader(content) as opened:
        assert opened.read(on(far, BIO_TYPE_OF_ANOTHER)) == {}
        assert opened.read({PlaceOf.BIO_DESCRIPTOR: far.fileno()}) == {}


def test_a_listener_is_not_what_a_handshake_reads_from(content: bytes) -> None:
    """A BIO that is of the type of sockets by name only has a number that may be any descriptor's."""
    with socket.create_server(("127.0.0.1", 0)) as listening, reader(content) as opened:
        assert opened.read(on(listening)) == {}


def test_a_unix_socket_has_no_port(content: bytes) -> None:
    left, right = socket.socketpair()
    with left, right, reader(content) as opened:
        assert opened.read(on(left)) == {Label.PORT: "0", Label.PEER: "unix socket"}


def test_an_ssl_that_is_freed_has_the_socket_that_it_had_before(content: bytes) -> None:
    """Its descriptor may be closed, or another connection's."""
    with reader(content) as opened, pair(client="127.0.8.5") as (other, _):
        assert opened.read(on(other), in_call=False) == {}  # no call has ever come back
        with pair() as (far, _):
            opened.keep(on(far))
            due = {Label.PORT: port_of(far), Label.PEER: "127.0.9.0/24"}
            os.dup2(other.fileno(), far.fileno())
            assert opened.read(on(far), in_call=False) == due
            assert opened.read(on(far), in_call=False) == {}  # it is another SSL by now, at the same place


def test_texts_beyond_the_bound_are_other(content: bytes) -> None:
    names = [text(b"%d.example" % number) for number in range(6)]
    with reader(content, Label.SNI, most_texts=3) as opened:
        for _ in range(2):
            told = [opened.read(session(name=ctypes.addressof(name))) for name in names]
            assert told == [{Label.SNI: f"{number}.example"} for number in range(3)] + [{Label.OTHER: ""}] * 3
