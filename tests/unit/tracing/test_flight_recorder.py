# SPDX-License-Identifier: Apache-2.0
"""Recordings of JVMs, made here byte by byte: what is read of them, damaged ones, and what a hostile JVM could do."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.model.flight_recorder import FlightRecording, Negotiated, Thrown, read_recording
from ssllatency.model.snapshot import Snapshot, Target
from ssllatency.reports.documents.document import from_json, to_json
from ssllatency.reports.text.flight_recorder import render
from ssllatency.tracing.jfr.attach import Jvm, command, open_jvm
from ssllatency.tracing.jfr.recording import HelperField
from ssllatency.tracing.jfr.summary import settings, summary, times_methods, times_ours

INT, LONG, STRING, SYMBOL, CLASS, METHOD, SHAKE, TIMING, THROWN = range(10, 19)
HEADER = 68
STARTED_NS = 10**18


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    pieces = bytearray()
    for _ in range(8):
        if value < 0x80:
            return bytes(pieces) + bytes([value])
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(pieces) + bytes([value])


def text(value: str) -> bytes:
    return b"\3" + number(len(value.encode())) + value.encode()


def sized(body: bytes) -> bytes:
    """With the size before it, in four bytes as the JVM writes it."""
    size = len(body) + 4
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21]) + body


CLASSES: dict[int, tuple[str, list[tuple[str, int, bool]]]] = {
    INT: ("int", []),
    LONG: ("long", []),
    STRING: ("java.lang.String", []),
    SYMBOL: ("jdk.types.Symbol", [("string", STRING, False)]),
    CLASS: ("java.lang.Class", [("name", SYMBOL, True)]),
    METHOD: ("jdk.types.Method", [("type", CLASS, True), ("name", SYMBOL, True), ("descriptor", SYMBOL, True)]),
    SHAKE: (
        "jdk.TLSHandshake",
        [(name, STRING, False) for name in ("peerHost", "protocolVersion", "cipherSuite")],
    ),
    TIMING: (
        "jdk.MethodTiming",
        [("method", METHOD, True), *((name, LONG, False) for name in ("invocations", "minimum", "average", "maximum"))],
    ),
    THROWN: ("jdk.JavaExceptionThrow", [("message", STRING, False), ("thrownClass", CLASS, True)]),
}


def metadata() -> bytes:
    strings: list[str] = []

    def index(word: str) -> bytes:
        if word not in strings:
            strings.append(word)
        return number(strings.index(word))

    def element(name: str, attributes: dict[str, str], children: list[bytes]) -> bytes:
        words = [index(word) for pair in attributes.items() for word in pair]
        return index(name) + number(len(attributes)) + b"".join(words) + number(len(children)) + b"".join(children)

    described = []
    for key, (name, fields) in CLASSES.items():
        children = [
            element("field", {"name": field, "class": str(kind), **({"constantPool": "true"} if constant else {})}, [])
            for field, kind, constant in fields
        ]
        described.append(element("class", {"name": name, "id": str(key)}, children))
    root = element("root", {}, [element("metadata", {}, described)])
    return sized(number(0) * 4 + number(len(strings)) + b"".join(map(text, strings)) + root)


def constants(pools: dict[int, dict[int, bytes]]) -> bytes:
    body = number(1) + number(0) * 3 + b"\1" + number(len(pools))
    for kind, values in pools.items():
        body += number(kind) + number(len(values)) + b"".join(number(key) + value for key, value in values.items())
    return sized(body)


def chunk(*parts: bytes, start_ns: int = STARTED_NS) -> bytes:
    body, described = b"".join(parts), metadata()
    size = HEADER + len(body) + len(described)
    header = struct.pack(">4sHHQQQQQQQI", b"FLR\0", 2, 1, size, HEADER, HEADER + len(body), start_ns, 0, 0, 10**9, 1)
    return header + body + described


def shake(version: str, cipher: str = "TLS_A", host: str = "10.0.0.1") -> bytes:
    return sized(number(SHAKE) + text(host) + text(version) + text(cipher))


def recording() -> bytes:
    symbols = {
        1: text("sun/security/ssl/Alert"),
        2: text("createSSLException"),
        3: text("(Ljava/lang/String;Ljava/lang/Throwable;)Ljavax/net/ssl/SSLException;"),
        4: text("javax/net/ssl/SSLHandshakeException"),
        5: text("java/io/IOException"),
        6: text("sun/security/ssl/KAKeyDerivation"),
        7: text("deriveKey"),
    }
    pools = {
        SYMBOL: symbols,
        CLASS: {key: number(key) for key in (1, 4, 5, 6)},
        METHOD: {1: number(1) + number(2) + number(3), 2: number(6) + number(7) + number(3)},
    }
    return chunk(
        constants(pools),
        shake("TLSv1.3"),
        shake("TLSv1.3", host="10.0.0.2"),
        shake("TLSv1.2", "TLS_\x1b[31mB"),
        sized(number(TIMING) + number(1) + number(2) + b"".join(map(number, (5, 6, 7)))),
        sized(number(TIMING) + number(2) + number(3) + b"".join(map(number, (1000, 2000, 4000)))),
        sized(number(THROWN) + text("no cipher suites in common") + number(4)),
        sized(number(THROWN) + text("a secret of the application's") + number(5)),
    )


def read(data: bytes, *, timed: bool = True) -> FlightRecording:
    return summary(data, 7, "25.0.3", STARTED_NS, timed=timed)


def test_a_recording_is_read() -> None:
    told = read(recording())
    assert told.negotiated == (Negotiated("TLSv1.3", "TLS_A", 2), Negotiated("TLSv1.2", "TLS_\x1b[31mB", 1))
    assert (told.count, told.peers) == (3, 2)
    assert told.thrown == (Thrown("SSLHandshakeException", "no cipher suites in common", 1),)
    assert told.methods is not None
    assert [(row.step, row.count, row.mean_ns, row.min_ns, row.max_ns) for row in told.methods] == [
        ("key exchange: key derived", 3, 2000, 1000, 4000)
    ]


def test_methods_count_on_and_handshakes_add_up_over_chunks() -> None:
    told = read(recording() + recording())
    assert (told.count, told.cut) == (6, False)
    assert told.methods is not None
    assert [row.count for row in told.methods] == [3]
    assert read(chunk(shake("TLSv1.3"), start_ns=STARTED_NS + 2 * 10**9)).cut


def test_without_timed_methods_nothing_is_said_of_them() -> None:
    told = read(recording(), timed=False)
    assert told.methods is told.thrown is None
    assert "MethodTiming" in settings(timed=True)
    assert "MethodTiming" not in settings(timed=False)
    assert not times_methods("21.0.5")
    assert times_ours("jdk.MethodTiming filter=sun.security.ssl.Alert::createSSLException")


def test_damaged_recordings_are_refused_and_bounded() -> None:
    whole, chance = recording(), random.Random(1)
    for end in range(0, len(whole) - 1, 7):
        if end:
            with pytest.raises(ValueError, match=r"cut short|no recording"):
                read(whole[:end])
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            told = read(bytes(damaged))
        except ValueError:
            continue
        assert len(told.negotiated) <= 65


def test_many_kinds_are_folded() -> None:
    told = read(chunk(*(shake("TLSv1.3", f"TLS_{kind}") for kind in range(100))))
    assert told.count == 100
    assert len(told.negotiated) == 65


def test_what_a_helper_says_is_read_as_it_was_and_refused_by_the_field() -> None:
    told = read(recording())
    said = asdict(told)
    assert read_recording(HelperField(said)) == told
    said["negotiated"][1]["count"] = -1
    with pytest.raises(SsllatencyError, match=r"of a JVM can't be read: negotiated\[1\]\.count must be a whole number"):
        read_recording(HelperField(said))


def test_report_and_document_say_it() -> None:
    told = read(recording())
    snapshot = Snapshot("h", "6.1", "jfr", "2030-01-31T12:00:00Z", 2.0, (Target(7, "java", ()),), (), flight_recordings=(told,))
    report = render(snapshot)
    assert "3 handshakes recorded with 2 hosts" in report
    assert "1 SSLHandshakeException: no cipher suites in common" in report
    assert "\x1b" not in report
    assert from_json(to_json(snapshot)) == snapshot


@contextmanager
def jvm(root: Path, pid: int) -> Iterator[Jvm]:
    """A JVM that would have this root."""
    (root / "tmp").mkdir()
    handle, process = os.open(root, os.O_PATH), os.pidfd_open(os.getpid())
    try:
        yield Jvm(pid, 1, os.geteuid(), os.getegid(), handle, process)
    finally:
        os.close(handle)
        os.close(process)


def test_a_link_isnt_followed_to_a_socket_elsewhere(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "s", tmp_path / "root"
    root.mkdir()
    place = root / "tmp/.java_pid1"

    def listen(*_: object) -> None:
        place.unlink()
        place.touch()

    had = signal.signal(signal.SIGQUIT, listen)  # the JVM is asked to listen
    try:
        with jvm(root, os.getpid()) as target, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(elsewhere))
            listening.listen()
            place.symlink_to(elsewhere)
            with pytest.raises(SsllatencyError, match="isn't its socket"):
                command(target, "VM.version")
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()
    finally:
        signal.signal(signal.SIGQUIT, had)


def test_another_process_that_listens_isnt_spoken_to(tmp_path: Path) -> None:
    with jvm(tmp_path, 1) as target, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "tmp/.java_pid1"))
        listening.listen()
        with pytest.raises(SsllatencyError, match="Another process"):
            command(target, "VM.version")


def test_a_program_that_sigquit_would_end_gets_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(SsllatencyError, match="no handler for SIGQUIT"):
            open_jvm(process.pid)
        process.kill()
