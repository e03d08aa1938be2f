# SPDX-License-Identifier: Apache-2.0
"""From the events of a recording to what is reported of them: bounded, as the JVM chose its texts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ssllatency.data_class import dataclass
from ssllatency.model.flight_recorder import FlightRecording, Negotiated, Thrown, TimedMethod
from ssllatency.tracing.jfr.chunks import Chunk, Event, Fields, read_chunks

_MOST_ROWS, _MOST_PEERS, _LONGEST = 64, 65536, 200
_UNVERIFIED = "SSLPeerUnverifiedException"  # which each handshake throws whose peer has no certificate


class JsseMethod(NamedTuple):
    """A method of JSSE: what it does in a handshake, its class below sun.security.ssl, its name, and how the descriptor of the
    overload that is meant begins."""

    what: str
    type: str
    name: str
    descriptor: str = ""


_SERVER, _CLIENT = "(Lsun/security/ssl/ServerHandshakeContext;", "(Lsun/security/ssl/ClientHandshakeContext;"
# A handshake is completed where the peer's Finished is taken.
STEPS = (
    JsseMethod("server: ClientHello handled", "ClientHello$ClientHelloConsumer", "consume"),
    JsseMethod("server: TLS 1.3 completed", "Finished$T13FinishedConsumer", "onConsumeFinished", _SERVER),
    JsseMethod("server: TLS 1.2 completed", "Finished$T12FinishedConsumer", "onConsumeFinished", _SERVER),
    JsseMethod("client: TLS 1.3 completed", "Finished$T13FinishedConsumer", "onConsumeFinished", _CLIENT),
    JsseMethod("client: TLS 1.2 completed", "Finished$T12FinishedConsumer", "onConsumeFinished", _CLIENT),
    JsseMethod("key exchange: key derived", "KAKeyDerivation", "deriveKey"),
    JsseMethod(
        *("private key: TLS 1.3 signature", "CertificateVerify$T13CertificateVerifyMessage", "<init>"),
        "(Lsun/security/ssl/HandshakeContext;Lsun/security/ssl/X509",
    ),
    JsseMethod(
        *("private key: TLS 1.2 key exchange signed", "ECDHServerKeyExchange$ECDHServerKeyExchangeMessage", "<init>"),
        "(Lsun/security/ssl/HandshakeContext;)",
    ),
    JsseMethod("peer's certificates checked", "CertificateMessage$T13CertificateConsumer", "checkClientCerts"),
    JsseMethod("peer's certificates checked", "CertificateMessage$T12CertificateConsumer", "checkClientCerts"),
    JsseMethod("peer's certificates checked", "CertificateMessage$T13CertificateConsumer", "checkServerCerts"),
    JsseMethod("peer's certificates checked", "CertificateMessage$T12CertificateConsumer", "checkServerCerts"),
)
_HANDSHAKE, _TIMING, _THROWN, _LOST = "jdk.TLSHandshake", "jdk.MethodTiming", "jdk.JavaExceptionThrow", "jdk.DataLoss"
WANTED = frozenset({_HANDSHAKE, _TIMING, _THROWN, _LOST})


def settings(*, timed: bool) -> str:
    """Return what a JVM is asked to record, as options of JFR.start; `timed`: methods as well."""
    options = [f"+{_HANDSHAKE}#enabled=true", f"+{_HANDSHAKE}#stackTrace=false", f"+{_LOST}#enabled=true"]
    if timed:
        methods = dict.fromkeys(f"sun.security.ssl.{step.type}::{step.name}" for step in STEPS)
        options += [f"+{_TIMING}#enabled=true", f"+{_TIMING}#period=endChunk", f"+{_TIMING}#filter={';'.join(methods)}"]
        options += [f"+{_THROWN}#enabled=true", f"+{_THROWN}#stackTrace=false", f"+{_THROWN}#throttle=100/s"]
    return " ".join(options)


def times_methods(release: str) -> bool:
    """Whether that JDK times methods (JEP 520)."""
    return major(release) >= 25


def times_ours(checked: str) -> bool:
    """Whether another recording of the JVM, of those that `JFR.check verbose=true` tells of, times methods of JSSE: its counts
    would be in ours."""
    return "sun.security.ssl" in checked


def major(release: str) -> int:
    """The first number of a release, 0 where it has none."""
    first = release.split(".")[0].split("-")[0].split("+")[0]
    return int(first) if first.isascii() and first.isdecimal() and len(first) < 5 else 0


@dataclass(frozen=True)
class _Timing:
    """The event that tells of most invocations of a method: they are counted on from chunk to chunk."""

    invocations: int
    fields: Fields
    chunk: Chunk


def summary(data: bytes, pid: int, release: str, started_ns: int, *, timed: bool) -> FlightRecording:
    """Sum up a recording that was begun then; `timed`: whether methods were timed, for it alone. ValueError where it is
    none."""
    negotiated, thrown, peers = Counter[tuple[str, str]](), Counter[tuple[str, str]](), set[str]()
    timings: dict[JsseMethod, _Timing] = {}
    lost = 0
    cut: bool | None = None
    for chunk in read_chunks(data, WANTED):
        cut = chunk.start_ns > started_ns + 10**9 if cut is None else cut
        for event in chunk.events:
            fields = event.fields
            if event.name == _HANDSHAKE:
                _add(negotiated, _text(fields.get("protocolVersion")), _text(fields.get("cipherSuite")))
                if len(peers) < _MOST_PEERS:
                    peers.add(_text(fields.get("peerHost")))
            elif event.name == _THROWN:
                _add_thrown(thrown, fields)
            elif event.name == _TIMING:
                _take(timings, event, chunk)
            else:
                lost += _whole(fields.get("amount"))
    rows = tuple(Negotiated(*names, count) for names, count in negotiated.most_common())
    recording = FlightRecording(pid, release, rows, len(peers), lost_bytes=lost, cut=bool(cut))
    if not timed:
        return recording
    return FlightRecording(
        *(pid, release, rows, len(peers)),
        methods=tuple(_timed(step, timings[step]) for step in STEPS if step in timings),
        thrown=tuple(Thrown(*names, count) for names, count in thrown.most_common()),
        lost_bytes=lost,
        cut=bool(cut),
    )


def _add(rows: Counter[tuple[str, str]], *names: str) -> None:
    key = (names[0], names[1])
    rows[key if key in rows or len(rows) < _MOST_ROWS else ("other", "")] += 1


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0


def _symbol(value: object, *path: str) -> str:
    """The text of a class's or a method's name, which is a constant of its own."""
    for name in (*path, "string"):
        value = value.get(name) if isinstance(value, Fields) else None
    return value if isinstance(value, str) else ""


def _add_thrown(thrown: Counter[tuple[str, str]], fields: Fields) -> None:
    package, _, name = _symbol(fields, "thrownClass", "name").rpartition("/")
    if package == "javax/net/ssl" and name != _UNVERIFIED:
        _add(thrown, name[:_LONGEST], _text(fields.get("message")))


def _take(timings: dict[JsseMethod, _Timing], event: Event, chunk: Chunk) -> None:
    method = event.fields.get("method")
    package, _, type_ = _symbol(method, "type", "name").rpartition("/")
    name, descriptor = _symbol(method, "name"), _symbol(method, "descriptor")
    for step in STEPS:
        if (package, type_, name) == ("sun/security/ssl", step.type, step.name) and descriptor.startswith(step.descriptor):
            invocations = _whole(event.fields.get("invocations"))
            if step not in timings or invocations > timings[step].invocations:
                timings[step] = _Timing(invocations, event.fields, chunk)


def _timed(step: JsseMethod, timing: _Timing) -> TimedMethod:
    times = [timing.chunk.nanoseconds(timing.fields.get(name)) for name in ("average", "minimum", "maximum")]
    return TimedMethod(step.what, f"{step.type}.{step.name}", timing.invocations, *times)
