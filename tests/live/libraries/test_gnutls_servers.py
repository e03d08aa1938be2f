# SPDX-License-Identifier: Apache-2.0
"""Debian's servers that link GnuTLS, one that blocks and one that waits for all of its sockets: their handshakes are as many as
the clients made and as the servers tell, take less time than the clients' clocks say, and fail for the reasons in the logs."""

from __future__ import annotations

import smtplib
import ssl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client
from tests.live.clients.slow import PAUSE_S, slow
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.trace import Trace, count, losses, reasons
from tests.live.servers.debian import exim, lighttpd
from tests.live.servers.nginx import Certificate, make_certificate
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
TIMES, REQUESTS = 6, 3
VERSIONS = (TLS_1_2, TLS_1_3)
# What the servers say of a handshake that failed, and the reason that we give.
REASONS = {
    "Decryption has failed.": "decryption failed",
    "GNUTLS_E_DECRYPTION_FAILED": "decryption failed",
    "An unexpected TLS packet was received.": "unexpected packet",
    "GNUTLS_E_UNEXPECTED_PACKET": "unexpected packet",
    "No supported cipher suites have been found.": "no cipher suites",
    "GNUTLS_E_NO_CIPHER_SUITES": "no cipher suites",
    "A TLS fatal alert has been received.": "alert received",
    "GNUTLS_E_FATAL_ALERT_RECEIVED": "alert received",
    "A packet with illegal or unsupported version was received.": "unsupported version packet",
    "GNUTLS_E_UNSUPPORTED_VERSION_PACKET": "unsupported version packet",
    "Error decoding the received TLS packet.": "unexpected packet length",
    "GNUTLS_E_UNEXPECTED_PACKET_LENGTH": "unexpected packet length",
    "Error in the pull function.": "connection reset or closed by the peer",
    "GNUTLS_E_PULL_ERROR": "connection reset or closed by the peer",
}
FAILING: tuple[Callable[[int], object], ...] = (
    bad.foreign_cipher,
    bad.unknown_ca,
    bad.nonsense,
    bad.http,
    bad.end_of_file,
    bad.reset,
    partial(bad.flipped_bit, TLS_1_2),
    partial(bad.flipped_bit, TLS_1_3),
)


def mail(port: int, version: ssl.TLSVersion, *, starttls: bool) -> float:
    """One session that sends nothing: for how long the client's clock says that it took from what asked for TLS to the first
    answer by TLS, seconds."""
    if starttls:
        with smtplib.SMTP("127.0.0.1", port, timeout=TIMEOUT_S) as plain:
            plain.ehlo()
            began = time.monotonic()
            plain.starttls(context=bad.context(version))
            plain.ehlo()
            return time.monotonic() - began
    began = time.monotonic()
    with smtplib.SMTP_SSL("127.0.0.1", port, timeout=TIMEOUT_S, context=bad.context(version)):
        return time.monotonic() - began


def assert_reasons(shakes: Shakes, told: Counter[str]) -> None:
    """What failed did so for the reasons that the server has told."""
    expected: Counter[str] = Counter()
    for words, number in told.items():
        expected[REASONS[words]] += number
    assert Counter(one["reason"].partition(":")[0] for one in shakes.singles if one["ending"] != "success") == expected
    assert endings(shakes.document).keys() == {"success", "failure", "abandoned"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("starttls", [True, False], ids=["starttls", "on connect"])
def test_exim(pair: Certificate, *, starttls: bool) -> None:
    number = TIMES * len(VERSIONS)
    with exim(pair, starttls=starttls) as server:
        with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "port")) as shakes:
            spans = [mail(server.port, version, starttls=starttls) for version in VERSIONS for _ in range(TIMES)]
        assert server.told() == {"encrypted": number}
    assert endings(shakes.document) == {"success": number}
    assert Counter(labels_of(shakes.singles, "version", "port")) == {
        (version.name.replace("_", "."), str(server.port)): TIMES for version in VERSIONS
    }
    assert len({single["pid"] for single in shakes.singles}) == number, "a process for each connection"
    for single, span_s in zip(shakes.singles, spans, strict=True):
        assert single["parts_ns"]["wall"] < span_s * 1e9
        assert single["calls"] == 1
        assert single["parts_ns"]["key_exchange"] > 0
    assert count(trace.document, "gnutls_handshake") == count(trace.document, "gnutls_privkey_sign_data2") == number
    assert losses(trace.document) == {}
    assert_books(shakes)


def test_exim_fails_as_its_log_says(pair: Certificate) -> None:
    with exim(pair, starttls=False) as server:
        with Shakes(server.pid) as shakes:
            for failing in FAILING:
                failing(server.port)
            mail(server.port, TLS_1_3, starttls=False)
        told = Counter(server.told())
    assert told.pop("encrypted") == 1
    assert told.total() == len(FAILING)
    assert_reasons(shakes, told)
    assert_books(shakes)


def test_lighttpd(pair: Certificate) -> None:
    number = TIMES * len(VERSIONS)
    with lighttpd(pair) as server:
        Client(server.port, TLS_1_3).connect()  # with its first one, it tries whether the key belongs to the certificate
        with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "port")) as shakes:
            spans = []
            for version in VERSIONS:
                for _ in range(TIMES):
                    began = time.monotonic()
                    Client(server.port, version).connect(requests=REQUESTS)
                    spans.append(time.monotonic() - began)
        wait_for(lambda: server.told() == {"answered": number * REQUESTS + 1})
    assert endings(shakes.document) == {"success": number}
    assert Counter(labels_of(shakes.singles, "version", "port")) == {
        (version.name.replace("_", "."), str(server.port)): TIMES for version in VERSIONS
    }
    for single, span_s in zip(shakes.singles, spans, strict=True):
        assert single["parts_ns"]["wall"] < span_s * 1e9
        assert single["pid"] == server.pid
        assert single["parts_ns"]["key_exchange"] > 0
    document = trace.document
    retries = sum(single["calls"] - 1 for single in shakes.singles)
    assert count(document, "gnutls_handshake") == count(document, "gnutls_privkey_sign_data2") == number
    assert reasons(document, "gnutls_handshake", "retry") == {"WANT_READ": retries}
    assert retries > number
    assert count(document, "gnutls_record_recv") == count(document, "gnutls_record_send") == number * REQUESTS
    assert count(document, "gnutls_bye") == number
    assert losses(document) == {}
    assert_books(shakes)


def test_lighttpd_waits_for_slow_clients(pair: Certificate) -> None:
    with lighttpd(pair) as server, Shakes(server.pid) as shakes:
        for version in VERSIONS:
            slow(version, server.port)
    assert endings(shakes.document) == {"success": len(VERSIONS)}
    for single in shakes.singles:
        assert for_peer_ns(single) > PAUSE_S * 1e9 / 2
    assert_books(shakes)


def test_lighttpd_fails_as_its_log_says(pair: Certificate) -> None:
    with lighttpd(pair) as server:
        with Shakes(server.pid) as shakes:
            for failing in (*FAILING, bad.old_version):
                failing(server.port)
            Client(server.port, TLS_1_3).connect()
        wait_for(lambda: "answered" in server.told())
        told = Counter(server.told())
    assert told.pop("answered") == 1
    assert told.total() == len(FAILING) + 1
    assert_reasons(shakes, told)
    assert_books(shakes)
