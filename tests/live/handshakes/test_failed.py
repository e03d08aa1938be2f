# SPDX-License-Identifier: Apache-2.0
"""Handshakes that fail, between others that don't: each under OpenSSL's own reason, with its alert, and counted exactly. What
the servers themselves say of them, nginx in its log and Python in its exceptions, is the truth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, h2load
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.servers.nginx import Nginx, Settings, make_certificate
from tests.live.servers.python_ssl import TlsServer, TlsSettings

pytestmark = pytest.mark.usefixtures("tracing")

Act = Callable[[int], object]
TIMES, GOOD = 4, 40
RECEIVED, SENT = False, True


def mixed(port: int, acts: Sequence[Act], good: Act) -> None:
    """Each TIMES times, and GOOD good connections, several of all at a time."""
    work = [act for act in acts for _ in range(TIMES)]
    step = max(1, GOOD // len(work))
    for number in range(GOOD):
        work.insert(number * (step + 1) % len(work), good)
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(act, port) for act in work]:
            done.result()


def assert_causes(shakes: Shakes, due: dict[tuple[str, str, bool], int]) -> None:
    """These failures by reason, alert, and whether we sent it."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for cause in shakes.document["handshakes"]["causes"]:
        found[cause["reason"], cause["alert"], cause["sent"]] += cause["count"]
    assert found == due


def assert_python_agrees(shakes: Shakes, ends: dict[str, int]) -> None:
    """Python's exceptions have the same reasons; it names a time-out only by its kind."""
    found: Counter[str] = Counter()
    for cause in shakes.document["handshakes"]["causes"]:
        found[cause["reason"].upper().replace(" ", "_")] += cause["count"]
    found[""] = endings(shakes.document)["success"]
    assert found == ends


# What any server of OpenSSL 3 says of them: the reason, the alert, and whose it is.
PLAIN = {
    bad.no_shared_cipher: ("no shared cipher", "handshake failure", SENT),
    bad.nonsense: ("wrong version number", "", RECEIVED),
    bad.http: ("http request", "", RECEIVED),
    bad.end_of_file: ("unexpected eof while reading", "decode error", SENT),
    bad.unknown_ca: ("tlsv1 alert unknown ca", "unknown CA", RECEIVED),
}


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_failures_of_a_plain_server(certificates: Path, version) -> None:  # type: ignore[no-untyped-def]
    acts = {
        **PLAIN,
        partial(bad.wrong_name, certificates / "rsa.crt"): ("sslv3 alert bad certificate", "bad certificate", RECEIVED),
        partial(bad.flipped_bit, version): ("decryption failed or bad record mac", "bad record mac", SENT),
    }
    with TlsServer(certificates) as server, Shakes(server.pid, exact=False) as shakes:
        mixed(server.port, list(acts), lambda port: Client(port, version).connect())
        ends = server.ends()
    assert_causes(shakes, dict.fromkeys(acts.values(), TIMES))
    assert_python_agrees(shakes, ends)
    assert endings(shakes.document) == {"success": GOOD, "failure": len(acts) * TIMES}
    assert_books(shakes)


@pytest.mark.parametrize(("version", "alert", "told"), [
    (TLS_1_2, "handshake failure", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    (TLS_1_3, "certificate required", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
], ids=["1.2", "1.3"])  # fmt: skip
def test_certificates_of_clients(certificates: Path, tmp_path: Path, version, alert: str, told: str) -> None:  # type: ignore[no-untyped-def]
    own, strange = make_certificate("rsa", tmp_path), make_certificate("ecdsa", certificates)
    settings = TlsSettings(client_ca=str(own.certificate))
    with TlsServer(certificates, settings) as server, Shakes(server.pid) as shakes:
        acts = [partial(bad.no_certificate, version), partial(bad.stranger, strange)]
        mixed(server.port, acts, lambda port: Client(port, version, certificate=own).connect())
        assert acts[0](server.port) == told
        ends = server.ends()
    reasons = ("peer did not return a certificate", alert, SENT), ("certificate verify failed", "unknown CA", SENT)
    assert_causes(shakes, {reasons[0]: TIMES + 1, reasons[1]: TIMES})
    assert_python_agrees(shakes, ends)
    assert {given["labels"]["client_certificate"] for given in shakes.ended("success")} == {"given"}
    assert {refused["labels"]["client_certificate"] for refused in shakes.ended("failure")} == {None}
    assert all("peer_verification" in single["parts_ns"] for single in shakes.ended("success"))
    assert_books(shakes)


def test_nothing_in_common(certificates: Path) -> None:
    with TlsServer(certificates, TlsSettings(curve="prime256v1")) as server, Shakes(server.pid) as shakes:
        mixed(server.port, [bad.other_curve, bad.other_signatures], lambda port: Client(port, TLS_1_3).connect())
        ends = server.ends()
    words = ("no suitable key share", "no suitable signature algorithm")
    assert_causes(shakes, {(reason, "handshake failure", SENT): TIMES for reason in words})
    assert_python_agrees(shakes, ends)
    assert_books(shakes)


STATES = {
    bad.silent_hello: "before SSL initialization",
    partial(bad.silent_after_hello, TLS_1_2): "SSLv3/TLS write server done",
    partial(bad.silent_after_hello, TLS_1_3): "TLSv1.3, before the client's Finished",
}


def test_abandoned_by_the_server(certificates: Path) -> None:
    """Its time limit passes; the state says how far each had come."""
    with TlsServer(certificates, TlsSettings(timeout_s=0.5)) as server, Shakes(server.pid) as shakes:
        mixed(server.port, list(STATES), lambda port: Client(port, TLS_1_3).connect())
        ends = server.ends()
    assert ends == {"": GOOD, "TimeoutError": TIMES * len(STATES)}
    assert endings(shakes.document) == {"success": GOOD, "abandoned": TIMES * len(STATES)}
    causes = shakes.document["handshakes"]["causes"]
    found = {cause["state"]: (cause["reason"], cause["alert"], cause["count"]) for cause in causes}
    assert found == dict.fromkeys(STATES.values(), ("freed", "", TIMES))
    assert all(single["parts_ns"]["wait_peer"] > 0 for single in shakes.ended("abandoned"))
    assert_books(shakes)


LOGGED = re.compile(r"SSL_do_handshake\(\) failed \(SSL: (.*?)\) while SSL handshaking")
NGINX_ACTS: tuple[Act, ...] = (
    bad.no_shared_cipher,
    bad.old_version,
    bad.unknown_ca,
    bad.other_signatures,
    bad.other_curve,
    bad.other_protocol,
    partial(bad.flipped_bit, TLS_1_2),
    partial(bad.flipped_bit, TLS_1_3),
)


def logged(log: str) -> Counter[tuple[str, ...]]:
    """The errors in the log by number, library and words: of each handshake the first of libssl's own."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in LOGGED.findall(log):
        errors = [tuple(error.split(":")) for error in line.removeprefix("error:").split(" error:")]
        number, library, _, reason, *_ = next(error for error in errors if error[1] == "SSL routines")
        found[number, library, reason] += 1
    return found


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize("host", [True, False], ids=["host", "debian 13"])
def test_what_nginx_logs(certificates: Path, host: bool) -> None:
    """The same errors by number, library and words; resets, ends and its own timeout too; h2load works meanwhile."""
    root = None if host else foreign.needed(foreign.second_root()).resolve()
    settings = Settings(kinds=("rsa",), curve="X25519", log_level="info", directives="client_header_timeout 2s;", workers=2)
    wrong_name = partial(bad.wrong_name, certificates / "rsa.crt")
    gone: tuple[Act, ...] = (bad.reset, bad.end_of_file)
    with Nginx(certificates, settings, root) as server, ThreadPoolExecutor(1) as other:
        with Shakes(server.master_pid, options=("--budget", "90%"), exact=False) as shakes:
            load = other.submit(h2load, server.port["rsa"], 500, parallel=10)
            acts = (*NGINX_ACTS, wrong_name, *gone, *STATES)
            mixed(server.port["rsa"], acts, lambda port: Client(port, TLS_1_3).connect())
            assert load.result() == 500
            server.wait_idle()
        log = server.log()
    causes = shakes.document["handshakes"]["causes"]
    failed = [cause for cause in causes if cause["ending"] == "failure"]
    found: Counter[tuple[str, ...]] = Counter()
    for cause in failed:
        found[f"{cause['code']:08X}", cause["library"], cause["reason"]] += cause["count"]
    assert found == logged(log)
    assert found.total() == TIMES * (len(NGINX_ACTS) + 1)
    assert {cause["alert"] for cause in failed if not cause["sent"]} == {"unknown CA", "bad certificate"}
    assert "" not in {cause["alert"] for cause in failed}
    left: Counter[str] = Counter()
    for cause in causes:
        if cause["ending"] == "abandoned":
            left[cause["reason"]] += cause["count"]
    timed_out = log.count("client timed out (110: Connection timed out) while SSL handshaking")
    assert left == {"connection reset or closed by the peer": TIMES * len(gone), "freed": timed_out}
    assert timed_out == TIMES * len(STATES)
    assert endings(shakes.document)["success"] == 500 + GOOD
    assert_books(shakes)
