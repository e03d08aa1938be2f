# SPDX-License-Identifier: Apache-2.0
"""Reads certificates that targets serve in a process of its own, which can do nothing but answer: a target may have written
anything where its certificates lie."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import NoReturn

from ssllatency.fields import Field, FieldError
from ssllatency.model.certificates import EARLIEST_S, LATEST_S, CertificateFacts, Issuer, SignedPart
from ssllatency.own_processes import helpers
from ssllatency.stopping import readable
from ssllatency.tracing.certificates.reading import LONGEST_NAME, LONGEST_SERIAL, read_certificate
from ssllatency.tracing.planning.confinement import confine, limit, tie

_MOST_S, _PROCESSOR_S = 5.0, 2
_LONGEST_LINE = 4096
_LONGEST_TEXT = 8 * LONGEST_NAME + 8  # each character may be escaped, as \x10ffff is
_PIECE = 1 << 16


def read_certificates(signed: Sequence[SignedPart]) -> dict[SignedPart, CertificateFacts | None]:
    """The certificates, each by what was signed of it and the length of its signature; None for one that is none. One of which
    no answer comes is left out: where the process ends early, those that are left are read one by one, once."""
    answers = _answers(signed, until := time.monotonic() + _MOST_S)
    if len(answers) < len(signed):
        until += _MOST_S
        for one in signed[len(answers) :]:
            answers |= _answers([one], until)
    return answers


def _answers(signed: Sequence[SignedPart], until: float) -> dict[SignedPart, CertificateFacts | None]:
    lines = _answer(signed, until).split(b"\n")[:-1]
    return {one: certificate_of(line) for one, line in zip(signed, lines, strict=False)}


def _answer(signed: Sequence[SignedPart], until: float) -> bytes:
    """The answer of a process; as far as it came where it takes too long, b"" where none can be started."""
    if time.monotonic() >= until:
        return b""
    try:
        receiving, sending = os.pipe()
    except OSError:
        return b""
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(receiving)
        os.close(sending)
        return b""
    if pid == 0:
        _be_reader(signed, sending, parent)
    helpers.add(pid)
    os.close(sending)
    try:
        return _hear(receiving, len(signed) * _LONGEST_LINE, until)
    finally:
        os.close(receiving)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        helpers.discard(pid)


def _hear(receiving: int, most: int, until: float) -> bytes:
    answer = b""
    while len(answer) <= most and (left := until - time.monotonic()) > 0:
        if readable([receiving], left):
            piece = os.read(receiving, _PIECE)
            answer += piece
            if not piece:
                break
    return answer


def _be_reader(signed: Sequence[SignedPart], sending: int, parent: int) -> NoReturn:
    status = 1
    try:
        tie(parent)
        limit(_PROCESSOR_S)
        confine(sending)
        for bytes_signed, signature_length in signed:
            os.write(sending, answer_to(bytes_signed, signature_length))
        status = 0
    finally:
        os._exit(status)


def answer_to(signed: bytes, signature_length: int) -> bytes:
    """The answer of the process about one certificate: a line of JSON."""
    try:
        certificate = asdict(read_certificate(signed, signature_length))
    except Exception:  # whatever one of them makes of this, others are to be read
        return b"null\n"
    return json.dumps(certificate).encode() + b"\n"


def certificate_of(line: bytes) -> CertificateFacts | None:
    """The certificate of an answer's line, which is believed no more than the file it comes from."""
    try:
        values = json.loads(line)
        return None if values is None else _checked(Field(values))
    except (ValueError, RecursionError, FieldError):
        return None


def _checked(field: Field) -> CertificateFacts:
    record = field.record(CertificateFacts)
    before, after = record["not_before_s"].integer(), record["not_after_s"].integer()
    if not (EARLIEST_S <= before < LATEST_S and EARLIEST_S <= after < LATEST_S):
        field.refuse("of our time")
    return CertificateFacts(
        name=_text(record["name"]),
        names=record["names"].whole(_PIECE),
        not_before_s=before,
        not_after_s=after,
        issuer=_text(record["issuer"]),
        issued_by=record["issued_by"].one_of(Issuer),
        key=_text(record["key"]),
        serial=record["serial"].text(LONGEST_SERIAL),
        size=record["size"].whole(1 << 20),
    )


def _text(field: Field) -> str:
    text = field.text(_LONGEST_TEXT)
    return text if text.isprintable() else field.refuse("of characters that can be printed")
