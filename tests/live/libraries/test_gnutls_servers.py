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
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns
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


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("certificates"))


def http(port: int, version: ssl.TLSVersion) -> float:
    """One connection with some requests, and how long it took by the client's clock, seconds."""
    began = time.monotonic()
    Client(port, version).connect(requests=REQUESTS)
    return time.monotonic() - began


def test_handshakes_are_as_many_as_clients_and_servers_say(pair: Certificate) -> None:
    number = TIMES * len(VERSIONS)
    with exim(pair, starttls=True) as asked, exim(pair, starttls=False) as smtps, lighttpd(pair) as web:
        http(web.port, TLS_1_3)  # with its first one, it tries whether the key belongs to the certificate
        clients = {asked.port: partial(mail, starttls=True), smtps.port: partial(mail, starttls=False), web.port: http}
        pids = [server.pid for server in (asked, smtps, web)]
        spans: dict[str, list[float]] = {}
        with Trace(*pids, options=("--by-process",)) as trace, Shakes(*pids, options=("--by", "port")) as shakes:
            for port, client in clients.items():
                spans[str(port)] = [client(port, version) for version in VERSIONS for _ in range(TIMES)]
        wait_for(lambda: asked.told() == smtps.told() == {"encrypted": number})
        wait_for(lambda: web.told() == {"answered": (number + 1) * REQUESTS})
    assert endings(shakes.document) == {"success": 3 * number}
    versions = [version.name.replace("_", ".") for version in VERSIONS for _ in range(TIMES)]
    for server in (asked, smtps, web):
        port = str(server.port)
        singles = [single for single in shakes.singles if single["labels"]["port"] == port]
        assert [single["labels"]["version"] for single in singles] == versions
        for single, span_s in zip(singles, spans[port], strict=True):
            assert single["parts_ns"]["wall"] < span_s * 1e9
            assert single["parts_ns"]["key_exchange"] > 0
        assert len({single["pid"] for single in singles}) == (1 if server is web else number), (
            "exim has one for each connection"
        )
        assert server is web or {single["calls"] for single in singles} == {1}
    document, retries = trace.document, sum(single["calls"] - 1 for single in shakes.singles)
    assert count(document, "gnutls_handshake") == count(document, "gnutls_privkey_sign_data2") == 3 * number
    assert reasons(document, "gnutls_handshake", "retry") == {"WANT_READ": retries}
    assert retries > number
    of_web = [row for row in document["functions"] if row["pid"] == web.pid and row["outcome"] == "success"]
    calls = {row["function"]: row["count"] for row in of_web}
    assert calls["gnutls_record_recv"] == calls["gnutls_record_send"] == number * REQUESTS
    assert calls["gnutls_bye"] == number
    assert losses(document) == {}
    assert_books(shakes)


def test_handshakes_fail_as_the_logs_say_and_slow_clients_are_waited_for(pair: Certificate) -> None:
    with exim(pair, starttls=False) as smtps, lighttpd(pair) as web:
        with Shakes(smtps.pid, web.pid, options=("--by", "port")) as shakes:
            for failing in FAILING:
                failing(smtps.port)
                failing(web.port)
            bad.old_version(web.port)
            mail(smtps.port, TLS_1_3, starttls=False)
            for version in VERSIONS:
                slow(version, web.port)
        # Each writes its log when it gets round to it, lighttpd now and then.
        wait_for(lambda: Counter(web.told()).total() == len(FAILING) + 1 + len(VERSIONS))
        wait_for(lambda: Counter(smtps.told()).total() == len(FAILING) + 1)
        told = {str(server.port): Counter(server.told()) for server in (smtps, web)}
    assert (told[str(smtps.port)].pop("encrypted"), told[str(web.port)].pop("answered")) == (1, len(VERSIONS))
    assert [sentences.total() for sentences in told.values()] == [len(FAILING), len(FAILING) + 1]
    for port, sentences in told.items():
        bad_ones = (one for one in shakes.singles if one["labels"]["port"] == port and one["ending"] != "success")
        expected: Counter[str] = Counter()
        for sentence, number in sentences.items():
            expected[REASONS[sentence]] += number
        assert Counter(one["reason"].partition(":")[0] for one in bad_ones) == expected
    assert endings(shakes.document).keys() == {"success", "failure", "abandoned"}
    waited = [one for one in shakes.ended("success") if one["labels"]["port"] == str(web.port)]
    assert len(waited) == len(VERSIONS)
    assert all(for_peer_ns(one) > PAUSE_S * 1e9 / 2 for one in waited)
    assert_books(shakes)
