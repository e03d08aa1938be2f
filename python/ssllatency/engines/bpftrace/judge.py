# SPDX-License-Identifier: Apache-2.0
"""How a call ended, in bpftrace's language: bpf/common/outcome.bpf.h and bpf/calls/side.bpf.h in C. Pure functions to lines.

They speak of $value (the return value as an int32), $raw (all of its register) and $ssl (the SSL *).
"""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.abi import Convention, Outcome, Reason
from ssllatency.engines.base import Side
from ssllatency.probes.plan import SslOffsets

Lines = list[str]
Emit = Callable[[Outcome, Reason], str]

_SUCCESS = {
    Convention.SSL_HANDSHAKE: "$value == 1",
    Convention.ONE: "$value == 1",
    Convention.SSL_IO: "$value > 0",
    Convention.SSL_EX: "$value > 0",
    Convention.POSITIVE: "$value > 0",
    Convention.SSL_SHUTDOWN: "$value >= 0",
    Convention.LENGTH: "$value >= 0",
    Convention.POINTER: "$raw != 0",
    Convention.MBX8: "($raw & 0xffffffff & (($raw & 0x22222222) / 2 * 15 ^ 0xffffffff)) == 0",  # as bpf/common/outcome.bpf.h
}
# What SSL_want returns where it isn't waiting for the socket.
_WAITS = {
    4: Reason.WANT_X509_LOOKUP,
    5: Reason.WANT_ASYNC,
    6: Reason.WANT_ASYNC_JOB,
    7: Reason.WANT_CLIENT_HELLO_CB,
    8: Reason.WANT_RETRY_VERIFY,
    99: Reason.WANT_SESSION_LOOKUP,
}
_WRITING, _READING = 2, 3
# What BoringSSL's rwstate holds there, which are its SSL_get_error's codes.
_BORINGSSL_WAITS = {4: Reason.WANT_X509_LOOKUP} | {
    code: Reason(Reason.PENDING_SESSION + code - 11)
    for code in range(11, 11 + Reason.HANDSHAKE_HINTS_READY - Reason.PENDING_SESSION + 1)
}
_BORINGSSL_READING, _BORINGSSL_WRITING, _BORINGSSL_SYSCALL, _BORINGSSL_ZERO_RETURN = 2, 3, 5, 6
_QUIC = "(*(int32*)uptr($ssl) & 0x80) != 0"


def succeeded(convention: Convention) -> str:
    """The condition under which a call did its work; "" where every call does."""
    return _SUCCESS.get(convention, "")


def sides(role: Side, offsets: SslOffsets) -> Lines:
    """Sets $wanted to 0 where the SSL is on the other side. One whose side can't be read counts."""
    lines = ["$wanted = 1;"]
    if role is Side.ANY or offsets.server is None:
        return lines
    other = "==" if role is Side.SERVER else "!="
    readable = f"$ssl != 0 && !({_QUIC})" if offsets.version else "$ssl != 0"
    return [
        *lines,
        f"if ({readable}) {{",
        f"if (({_server_word(offsets)}) {other} 0) {{",
        "$wanted = 0;",
        "}",
        "}",
    ]


def _server_word(offsets: SslOffsets) -> str:
    word = f"*(int32*)uptr($ssl + {offsets.server})"
    return f"{word} & {offsets.server_bits}" if offsets.server_bits else word


def unsuccessful_ssl(offsets: SslOffsets, emit: Emit) -> Lines:
    """What SSL_get_error would look at: names the retry or the failure."""
    unknown = emit(Outcome.RETRY, Reason.UNKNOWN)
    if offsets.rwstate is None:
        return [unknown]
    if offsets.boringssl is not None:
        return _unsuccessful_boringssl(offsets, emit)
    opaque = f"$ssl == 0 || {_QUIC}" if offsets.version else "$ssl == 0"
    lines = [f"if ({opaque}) {{", unknown, "} else {", f"$want = *(int32*)uptr($ssl + {offsets.rwstate});"]
    if offsets.state is not None:  # an error in the queue goes first: a BIO may leave its flags as they were
        lines += [f"if (*(int32*)uptr($ssl + {offsets.state}) == 1) {{", emit(Outcome.FAILURE, Reason.SSL), "} else"]
    lines += [f"if ($want == {_READING} || $want == {_WRITING}) {{", *_transport(offsets, emit)]
    for want, reason in _WAITS.items():
        lines += [f"}} else if ($want == {want}) {{", emit(Outcome.RETRY, reason)]
    return [*lines, "} else {", *_end(offsets, emit), "}", "}"]


def _unsuccessful_boringssl(offsets: SslOffsets, emit: Emit) -> Lines:
    """The same for its codes, which lie in a structure to which SSL points."""
    unknown = emit(Outcome.RETRY, Reason.UNKNOWN)
    lines = ["$holder = (uint64)0;", "if ($ssl != 0) {", f"$holder = *(uint64*)uptr($ssl + {offsets.boringssl});", "}"]
    lines += ["if ($holder == 0) {", unknown, "} else {", f"$want = *(int32*)uptr($holder + {offsets.rwstate});"]
    lines += [f"if ($want == {_BORINGSSL_READING} || $want == {_BORINGSSL_WRITING}) {{"]
    lines += _transport(offsets, emit, _BORINGSSL_READING)
    for want, reason in _BORINGSSL_WAITS.items():
        lines += [f"}} else if ($want == {want}) {{", emit(Outcome.RETRY, reason)]
    lines += [f"}} else if ($want == {_BORINGSSL_SYSCALL}) {{", emit(Outcome.FAILURE, Reason.SYSCALL)]
    lines += [f"}} else if ($want == {_BORINGSSL_ZERO_RETURN}) {{", emit(Outcome.CLOSED, Reason.ZERO_RETURN)]
    return [*lines, "} else {", emit(Outcome.FAILURE, Reason.SSL), "}", "}"]


def _transport(offsets: SslOffsets, emit: Emit, reading: int = _READING) -> Lines:
    """A wait for the socket only where the BIO says so: rwstate stays at READING when the peer is gone."""
    unknown = emit(Outcome.RETRY, Reason.UNKNOWN)
    if offsets.rbio is None or offsets.wbio is None or offsets.bio_flags is None:
        return [unknown]
    other = f"($flags & 4) == 4 && *(int32*)uptr($bio + {offsets.bio_flags + 4})"  # the reason lies behind the flags
    return [
        f"$bio = *(uint64*)uptr($ssl + {offsets.wbio});",
        f"if ($want == {reading}) {{",
        f"$bio = *(uint64*)uptr($ssl + {offsets.rbio});",
        "}",
        f"$flags = *(int32*)uptr($bio + {offsets.bio_flags});",
        "if ($bio == 0) {",
        unknown,
        "} else if (($flags & 1) == 1) {",
        emit(Outcome.RETRY, Reason.WANT_READ),
        "} else if (($flags & 2) == 2) {",
        emit(Outcome.RETRY, Reason.WANT_WRITE),
        f"}} else if ({other} == 2) {{",
        emit(Outcome.RETRY, Reason.WANT_CONNECT),
        f"}} else if ({other} == 3) {{",
        emit(Outcome.RETRY, Reason.WANT_ACCEPT),
        "} else {",
        *_broken_off(offsets, emit),
        "}",
    ]


def _broken_off(offsets: SslOffsets, emit: Emit) -> Lines:
    if offsets.boringssl is not None:
        return [emit(Outcome.FAILURE, Reason.SYSCALL)]
    if offsets.state is None:
        return [emit(Outcome.FAILURE, Reason.UNKNOWN)]
    return [
        f"if (*(int32*)uptr($ssl + {offsets.state}) == 1) {{",
        emit(Outcome.FAILURE, Reason.SSL),
        "} else {",
        emit(Outcome.FAILURE, Reason.SYSCALL),
        "}",
    ]


def _end(offsets: SslOffsets, emit: Emit) -> Lines:
    """Nothing is waited for: the peer has closed in good order, or an error lies in OpenSSL's queue."""
    if offsets.shutdown is None or offsets.state is None:
        return [emit(Outcome.FAILURE, Reason.UNKNOWN)]
    closed = f"(*(int32*)uptr($ssl + {offsets.shutdown}) & 2) == 2 && *(int32*)uptr($ssl + {offsets.state}) != 1"
    return [
        f"if ($value == 0 && {closed}) {{",
        emit(Outcome.CLOSED, Reason.ZERO_RETURN),
        "} else {",
        emit(Outcome.FAILURE, Reason.SSL),
        "}",
    ]
