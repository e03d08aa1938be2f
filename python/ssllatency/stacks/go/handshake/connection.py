# SPDX-License-Identifier: Apache-2.0
"""The facts that a *tls.Conn shows, by the program's run-time types: its labels, its socket; and the types by which errors are
known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ssllatency.abi import GoField, GoType
from ssllatency.code.values import FieldPath
from ssllatency.stacks.go.run_time_types import Kind, Types
from ssllatency.stacks.go.traced_functions import CALLBACKS, TLS

HELD_ERROR = 64  # where the kernel side looks for the error in a net.OpError
_LENGTH = 8  # of a string or a slice, from its pointer on
_DATA = 8  # of an interface, from its itab on
# Labels and fields of Conn: a number of so many bytes.
_NUMBERS = {"version": ("vers", 2), "cipher": ("cipherSuite", 2), "resumed": ("didResume", 1), "group": ("curveID", 2)}
_TEXTS = {"server_name": "serverName", "alpn": "clientProtocol"}
# The types that the kernel side knows; with * pointers to them.
_TYPES: Mapping[GoType, tuple[str, str, Kind]] = {
    GoType.TCP: ("net", "*TCPConn", Kind.STRUCT),
    GoType.LOCAL: ("net", "*UnixConn", Kind.STRUCT),
    GoType.PERMANENT: (TLS, "*permanentError", Kind.STRUCT),
    GoType.NETWORK: ("net", "*OpError", Kind.STRUCT),
    GoType.ALERT: (TLS, "alert", Kind.UINT8),
    GoType.DEADLINE: ("internal/poll", "*DeadlineExceededError", Kind.STRUCT),
    GoType.CLOSED: ("internal/poll", "errNetClosing", Kind.STRUCT),
    GoType.TEXT: ("errors", "*errorString", Kind.STRUCT),
    GoType.HASH: ("crypto", "Hash", Kind.UINT),
    GoType.PSS: ("crypto/rsa", "*PSSOptions", Kind.STRUCT),
}
# Fields of the runtime's records: of a goroutine, a thread, a processor.
_RUNTIME: Mapping[GoField, tuple[str, str]] = {
    GoField.THREAD: ("g", "m"),
    GoField.STOPS: ("g", "trackingSeq"),
    GoField.PROCESSOR: ("m", "p"),
    GoField.TURNS: ("p", "schedtick"),
}


def label_paths(types: Types) -> dict[str, FieldPath]:
    """The paths from a *tls.Conn to what labels its handshakes, as far as there are such fields. ElfError where the types are
    damaged."""
    paths = dict(_own_fields(types))
    certificates = types.offset(TLS, "Conn", "peerCertificates")
    config, asks = types.offset(TLS, "Conn", "config"), types.offset(TLS, "Config", "ClientAuth")
    if None not in (config, asks, certificates):
        paths["verify_mode"] = FieldPath((config or 0, asks or 0), 8)
        paths["peer_certificate"] = FieldPath(((certificates or 0) + _LENGTH,), 8)
    return paths | _socket(types)


def _own_fields(types: Types) -> Iterator[tuple[str, FieldPath]]:
    for label, (field, size) in _NUMBERS.items():
        offset = types.offset(TLS, "Conn", field)
        if offset is not None:
            yield label, FieldPath((offset,), size)
    for label, field in _TEXTS.items():
        offset = types.offset(TLS, "Conn", field)
        if offset is not None:
            yield label, FieldPath((offset,), 8)
            yield f"{label}_length", FieldPath((offset + _LENGTH,), 8)


def _socket(types: Types) -> dict[str, FieldPath]:
    """Return where the descriptor of a *net.TCPConn or *net.UnixConn lies, and what the runtime waits by for it."""
    steps = [
        types.offset("net", "TCPConn", "conn"),
        types.offset("net", "UnixConn", "conn"),
        types.offset("net", "conn", "fd"),
        types.offset(TLS, "Conn", "conn"),
    ]
    descriptor, polled = types.offset("net", "netFD", "pfd"), types.offset("net", "netFD", "pfd")
    number, desc = types.offset("internal/poll", "FD", "Sysfd"), types.offset("internal/poll", "FD", "pd")
    context = types.offset("internal/poll", "pollDesc", "runtimeCtx")
    if any(step not in (0, None) for step in steps) or steps[0] is None or steps[2:] != [0, 0]:
        return {}
    paths = {}
    if descriptor is not None and number is not None:
        paths["descriptor"] = FieldPath((_DATA, 0, descriptor + number), 8)
    if polled is not None and desc is not None and context is not None:
        paths["polled"] = FieldPath((_DATA, 0, polled + desc + context), 8)
    return paths


def known_types(types: Types) -> tuple[int, ...]:
    """The hashes of the types that the kernel side knows, by GoType, 0 where the program doesn't have one; none where
    hashes don't lie where the kernel side looks for them. ElfError where the types are damaged."""
    if "*net.OpError" not in types.error_hashes.values():
        return ()
    return tuple(types.hash_of(*_TYPES[GoType(number)]) for number in range(GoType.GO_TYPES))


def runtime_fields(types: Types) -> tuple[int, ...]:
    """Offsets of what the kernel side reads beside labels, by GoField: in the runtime's records, what tells whether a goroutine
    keeps its thread; in a Config the application's functions; 0 where that isn't known. ElfError where the types are
    damaged."""
    found = {field: types.offset("runtime", *place) or 0 for field, place in _RUNTIME.items()}
    found[GoField.CONFIG] = types.offset(TLS, "Conn", "config") or 0
    found |= {field: types.offset(TLS, "Config", name) or 0 for field, name in CALLBACKS.items()}
    return tuple(found.get(GoField(number), 0) for number in range(GoField.GO_FIELDS))


def sent_alert(types: Types) -> int | None:
    """Return where a *tls.Conn keeps why it writes no more; None where that isn't known."""
    half, error = types.offset(TLS, "Conn", "out"), types.offset(TLS, "halfConn", "err")
    held = types.offset("net", "OpError", "Err")
    return half + error if half is not None and error is not None and held == HELD_ERROR else None
