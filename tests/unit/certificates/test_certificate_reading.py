# SPDX-License-Identifier: Apache-2.0
"""What is read of certificates: of those that OpenSSL makes, of hostile ones, and through the process that reads them."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fixtures import certificates as made
from tests.fixtures.certificates import element, sequence, signed
from tests.fixtures.high_descriptors import high_pipes

from ssllatency.model.certificates import CertificateFacts, Issuer
from ssllatency.tracing.certificates import der, process
from ssllatency.tracing.certificates.der import DerError
from ssllatency.tracing.certificates.reading import read_certificate

KEYS = {
    "RSA-2048": ("rsa:2048",),
    "RSA-1024": ("rsa-pss", "-pkeyopt", "rsa_keygen_bits:1024"),
    "ECDSA P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "ECDSA P-384": ("ec", "-pkeyopt", "ec_paramgen_curve:P-384"),
    "ECDSA": ("ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"),
    "Ed25519": ("ed25519",),
    "Ed448": ("ed448",),
}
SIGNATURE = 71  # bytes of one
GOOD, BAD, LATER = ((signed(serial=bytes([number])), SIGNATURE) for number in (1, 2, 3))


def parts(certificate: bytes) -> tuple[bytes, int]:
    """What was signed of a whole certificate, and the length of its signature."""
    body, _, bits = der.whole(certificate, der.SEQUENCE).children()
    start = len(certificate) - len(der.whole(certificate, der.SEQUENCE).content)
    return certificate[start : start + body.size], len(bits.content) - 1


@pytest.mark.parametrize("key", KEYS)
def test_certificates_as_openssl_makes_them(key: str, tmp_path: Path) -> None:
    file = tmp_path / "certificate.der"
    names = "subjectAltName=DNS:a.example,DNS:*.b.example,IP:192.0.2.1"
    made_by = ["openssl", "req", "-x509", "-newkey", *KEYS[key], "-nodes", "-days", "12", "-set_serial", "0x93f156", "-utf8"]
    where = ["-subj", "/O=Órgano/CN=first.example", "-addext", names, "-keyout", tmp_path / "key", "-outform", "DER"]
    subprocess.run([*made_by, *where, "-out", file], check=True, capture_output=True)
    certificate = file.read_bytes()
    read = read_certificate(*parts(certificate))
    assert (read.key, read.name, read.names, read.serial) == (key, "a.example", 3, "93f156")
    assert (read.issuer, read.issued_by) == ("Órgano", Issuer.ITSELF)
    assert read.size == len(certificate)
    assert read_certificate(certificate, 0) == read, "as other libraries keep it"
    assert read.not_after_s - read.not_before_s - 12 * 86_400 in (0, 1), "openssl looks at the clock for each"
    assert abs(read.not_before_s - datetime.now(UTC).timestamp()) < 600


_ENDING = bytes.fromhex("30000400")  # a sequence and a string of bytes, not of bits


@pytest.mark.parametrize("data", [b"", b"\x30\x00", signed(), element(0x30, signed()), element(0x30, signed() + _ENDING)])
def test_what_is_no_whole_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(DerError):
        read_certificate(data, 0)


def test_a_serial_of_zero_has_its_digits() -> None:
    assert read_certificate(signed(serial=b"\0"), SIGNATURE).serial == "00"


def test_what_a_made_one_says() -> None:
    key = made.rsa_key(3072)
    subject = made.name((made.COMMON_NAME, b"www.example"))
    issuer = made.name((made.ORGANISATION, b"An Authority"), (made.COMMON_NAME, b"R 1"))
    read = read_certificate(signed(issuer=issuer, subject=subject, key=key), SIGNATURE)
    assert (read.name, read.names, read.issuer, read.issued_by, read.key) == (
        *("www.example", 0, "An Authority", Issuer.OTHER, "RSA-3072"),
    )
    assert datetime.fromtimestamp(read.not_before_s, UTC).isoformat() == "2026-01-01T00:00:00+00:00"
    assert datetime.fromtimestamp(read.not_after_s, UTC).isoformat() == "2051-01-01T00:00:00+00:00"


def test_an_issuer_of_the_same_organisation() -> None:
    issuer = made.name((made.ORGANISATION, b"Example"), (made.COMMON_NAME, b"Example's own"))
    assert read_certificate(signed(issuer=issuer), SIGNATURE).issued_by is Issuer.SAME
    nobody = made.name((made.COMMON_NAME, b"a"))
    assert read_certificate(signed(issuer=nobody, subject=made.name()), SIGNATURE).issued_by is Issuer.OTHER


def test_names_are_harmless_and_short() -> None:
    hostile = made.name((made.ORGANISATION, "\x1b[2J\u202e\nx".encode() + b"\xff"), (made.COMMON_NAME, b"y" * 300))
    read = read_certificate(signed(issuer=hostile, subject=hostile), SIGNATURE)
    assert read.issuer == "\\x1b[2J\\x202e\\x0ax\ufffd"
    assert read.name == "y" * 64 + "…"
    wide = made.name((made.COMMON_NAME, "Ü".encode("utf-16-be")), tag=0x1E)
    assert read_certificate(signed(subject=wide), SIGNATURE).name == "Ü"


@pytest.mark.parametrize(
    "fields",
    [
        {"validity": sequence(element(0x17, b"260101000000Z"))},
        {"validity": sequence(*[element(0x17, b"261301000000Z")] * 2)},
        {"validity": sequence(*[element(0x17, b"2601010000Z")] * 2)},
        {"validity": sequence(*[element(0x18, b"20510101000000+")] * 2)},
        {"validity": sequence(*[element(0x0C, b"260101000000Z")] * 2)},
        {"subject": sequence(sequence(made.NULL))},
        {"key": sequence(made.ALGORITHM)},
        {"key": made.NO_ALGORITHM},
        {"key": sequence(sequence(made.oid(made.RSA)), element(0x03, b"\0", element(0x02, b"\1")))},
        {"key": sequence(sequence(made.oid(made.RSA)), element(0x03))},
        {"key": sequence(sequence(made.oid(made.RSA)), element(0x03, b"\0", sequence(element(0x02, b"\0"))))},
        {"more": element(0xA3, sequence(sequence(made.oid("551d11"), element(0x04, b"\x30\x7f"))))},
        {"more": made.alternative_names(*[element(0x82, b"a")] * 5000)},
        {"serial": b"\1", "algorithm": element(0x02, b"\1")},
    ],
)  # fmt: skip
def test_lying_ones_are_refused(fields: dict[str, bytes]) -> None:
    with pytest.raises(DerError):
        read_certificate(signed(**fields), SIGNATURE)


@pytest.mark.parametrize(
    "data", ["", "30", "3080", "308000", "30800000", "30017f", "30810100", "3082000100", "1f8001", "308400000000"]
)
def test_lengths_that_are_not_der(data: str) -> None:
    with pytest.raises(DerError):
        list(der.read(bytes.fromhex(data)).children())


def test_truncated_and_changed_ones_are_refused_or_read() -> None:
    whole = signed(more=made.alternative_names(element(0x82, b"a.example"), element(0x87, b"\1\2\3\4")))
    for length in range(len(whole)):
        with pytest.raises(DerError):
            read_certificate(whole[:length], SIGNATURE)
    chance = random.Random(1)
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            read = read_certificate(bytes(changed), SIGNATURE)
        except DerError:
            continue
        assert process.certificate_of(process.answer_to(bytes(changed), SIGNATURE)) == read


@pytest.mark.parametrize("character", ["\ue000", "\U0010ffff", "\U0001f600"])
def test_the_longest_names_are_answered(character: str) -> None:
    longest = made.name((made.ORGANISATION, (character * 65).encode()), (made.COMMON_NAME, (character * 65).encode()))
    one = signed(issuer=longest, subject=longest), SIGNATURE
    assert process.read_certificates([one]) == {one: read_certificate(*one)}
    assert len(process.answer_to(*one)) <= process._LONGEST_LINE


def test_a_process_of_its_own_reads_them() -> None:
    one, other = (signed(), SIGNATURE), (signed(serial=b"\7"), SIGNATURE)
    none, cut = (b"", 9), (one[0][:-1], 9)
    read = process.read_certificates([one, none, cut, other])
    assert read == {one: read_certificate(*one), none: None, cut: None, other: read_certificate(*other)}


def test_it_is_heard_by_a_high_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    with high_pipes(monkeypatch):
        assert process.read_certificates([GOOD]) == {GOOD: read_certificate(*GOOD)}


@pytest.mark.parametrize("lacking", ["pipe", "fork"])
def test_there_may_be_no_process(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    def lack() -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, lacking, lack)
    assert process.read_certificates([GOOD]) == {}


def bad_for(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
    """Has the process do that where it is to read BAD."""

    def read(signed: bytes, length: int) -> CertificateFacts:
        if (signed, length) == BAD:
            does()
        return read_certificate(signed, length)

    monkeypatch.setattr(process, "read_certificate", read)


def fail() -> None:
    raise RuntimeError("a defect")


@pytest.mark.parametrize("order", [(GOOD, BAD, LATER), (BAD, GOOD, LATER), (GOOD, LATER, BAD)])
def test_a_process_that_dies_costs_no_more_than_its_certificate(
    monkeypatch: pytest.MonkeyPatch, order: tuple[tuple[bytes, int], ...]
) -> None:
    bad_for(monkeypatch, lambda: os._exit(1))
    assert process.read_certificates(order) == {GOOD: read_certificate(*GOOD), LATER: read_certificate(*LATER)}


def test_a_defect_costs_no_more_than_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    bad_for(monkeypatch, fail)
    read = process.read_certificates([GOOD, BAD, LATER])
    assert read == {GOOD: read_certificate(*GOOD), BAD: None, LATER: read_certificate(*LATER)}


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> None:
        while True:
            pass

    monkeypatch.setattr(process, "_MOST_S", 0.2)
    bad_for(monkeypatch, hang)
    assert BAD not in process.read_certificates([GOOD, BAD])


def test_it_shares_no_memory_with_the_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that in which the programs count, which is mapped before the process is forked."""
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    bad_for(monkeypatch, lambda: ctypes.memset(address, 1, 1))
    assert process.read_certificates([GOOD, BAD]) == {GOOD: read_certificate(*GOOD)}
    assert shared[0] == 0


def test_its_collector_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What belonged to memory that isn't mapped any more would unmap what is there by now."""
    assert gc.isenabled()
    bad_for(monkeypatch, lambda: gc.isenabled() and os._exit(1))
    assert process.read_certificates([BAD]) == {BAD: read_certificate(*BAD)}


def answer_with(field: bytes, value: bytes) -> bytes:
    """An answer with another number in one field."""
    return re.sub(b'("%b": )[-0-9]+' % field, b"\\g<1>%b" % value, process.answer_to(signed(), SIGNATURE))


def test_times_of_four_digit_years_are_read() -> None:
    assert process.certificate_of(answer_with(b"not_after_s", b"253402300799"))


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"{", b"{}", b"[" * 5000, b'{"name": 1}',
        process.answer_to(signed(), SIGNATURE).replace(b'"names": 0', b'"names": -1'),
        process.answer_to(signed(), SIGNATURE).replace(b"www", b"\\u001b"),
        process.answer_to(signed(), SIGNATURE).replace(b"itself", b"nobody"),
        answer_with(b"not_after_s", b"9999999999999"),
        answer_with(b"not_after_s", b"253402300800"),
        answer_with(b"not_before_s", b"-62135596801"),
    ],
)  # fmt: skip
def test_an_answer_is_checked(line: bytes) -> None:
    """The process may have been taken over by what it has read."""
    assert process.certificate_of(line) is None
