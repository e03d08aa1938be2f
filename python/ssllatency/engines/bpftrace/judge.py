# SPDX-License-Identifier: Apache-2.0
"""Verdicts on calls, in bpftrace's language: bpf/stacks/outcome.bpf.h and bpf/calls/side.bpf.h in C. Pure functions to lines.

tests/unit/verdicts holds the verdicts against those of these headers, for all codes. The lines speak of $value (the return
value as an int32), $raw (all of its register) and $ssl (the SSL *).
"""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.abi import Convention, Outcome, Reason, Returns
from ssllatency.engines.base import Side
from ssllatency.probes.plan import SslOffsets
from ssllatency.stacks.base import Codes
from ssllatency.stacks.operation import ReturnValue

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
    Convention.MBX8: "($raw & 0xffffffff & (($raw & 0x22222222) / 2 * 15 ^ 0xffffffff)) == 0",  # as bpf/stacks/outcome.bpf.h
}
_QUIC = "(*(int32*)uptr($ssl) & 0x80) != 0"


def succeeded(value: ReturnValue) -> str:
    """The condition under which a call did its work; "" where nothing tells."""
    match value.returns:
        case Returns.NEGATIVE_ERROR:
            return "$value > 0" if value.convention is Convention.SSL_IO else "$value >= 0"
        case Returns.GO_ERROR:
            return "$raw == 0"
    return _SUCCESS.get(value.convention, "")


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


def unsuccessful_ssl(offsets: SslOffsets, codes: Codes, emit: Emit) -> Lines:
    """Look at what SSL_get_error would look at: names the retry or the failure."""
    unknown = emit(Outcome.RETRY, Reason.UNKNOWN)
    if offsets.rwstate is None:
        return [unknown]
    lines = [*_want(offsets, unknown), *_failed(offsets, emit)]
    lines += [f"if ($want == {codes.reading} || $want == {codes.writing}) {{", *_transport(offsets, codes, emit)]
    verdicts = {code: (Outcome.RETRY, reason) for code, reason in codes.reasons.items()} | {**codes.ends}
    for want, verdict in verdicts.items():
        lines += [f"}} else if ($want == {want}) {{", emit(*verdict)]
    return [*lines, "} else {", *([emit(Outcome.FAILURE, Reason.SSL)] if codes.ends else _end(offsets, emit)), "}", "}"]


def _want(offsets: SslOffsets, unknown: str) -> Lines:
    """Sets $want, in a block that the caller has to close, for an SSL that it can be read of."""
    if offsets.boringssl is not None:
        holder = f"$holder = *(uint64*)uptr($ssl + {offsets.boringssl});"
        lines = ["$holder = (uint64)0;", "if ($ssl != 0) {", holder, "}", "if ($holder == 0) {"]
        return [*lines, unknown, "} else {", f"$want = *(int32*)uptr($holder + {offsets.rwstate});"]
    opaque = f"$ssl == 0 || {_QUIC}" if offsets.version else "$ssl == 0"
    return [f"if ({opaque}) {{", unknown, "} else {", f"$want = *(int32*)uptr($ssl + {offsets.rwstate});"]


def _failed(offsets: SslOffsets, emit: Emit) -> Lines:
    """An error in the queue goes first: a BIO may leave its flags as they were."""
    if offsets.state is None:
        return []
    return [f"if (*(int32*)uptr($ssl + {offsets.state}) == 1) {{", emit(Outcome.FAILURE, Reason.SSL), "} else"]


def _transport(offsets: SslOffsets, codes: Codes, emit: Emit) -> Lines:
    """A wait for the socket only where the BIO says so: the SSL still wants to read when the peer is gone."""
    unknown = emit(Outcome.RETRY, Reason.UNKNOWN)
    if offsets.bio_flags is None:
        return [unknown]
    other = f"($flags & 4) == 4 && *(int32*)uptr($bio + {offsets.bio_flags + 4})"  # the reason lies behind the flags
    return [
        f"$bio = {_pointer(offsets.wbio)};",
        f"if ($want == {codes.reading}) {{",
        f"$bio = {_pointer(offsets.rbio)};",
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
        *_broken_off(offsets, codes, emit),
        "}",
    ]


def _pointer(offset: int | None) -> str:
    """The pointer at this offset of the SSL, 0 where it isn't known where that is."""
    return "(uint64)0" if offset is None else f"*(uint64*)uptr($ssl + {offset})"


def _broken_off(offsets: SslOffsets, codes: Codes, emit: Emit) -> Lines:
    if codes.ends:
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
