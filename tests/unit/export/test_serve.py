# SPDX-License-Identifier: Apache-2.0
"""The HTTP server on loopback: formats by what is asked for, TLS, passwords, slow and many clients."""

from __future__ import annotations

import base64
import gzip
import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import bcrypt
import pytest
from tests.answering import answering
from tests.waiting import wait_for

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import NoReading, Point, Reading
from ssllatency.export.serve import connections
from ssllatency.export.serve import server as server_module
from ssllatency.export.serve.connections import Connections, network_of
from ssllatency.export.serve.host_names import may_ask
from ssllatency.export.serve.negotiation import chosen
from ssllatency.export.serve.passwords import MOST_WAITING, Busy, Passwords
from ssllatency.export.serve.server import ServedMetrics, Server
from ssllatency.export.serve.web_config import read
from ssllatency.load.matrix.servers.certificates import make_certificate

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
# What Prometheus 3 sends with and without native histograms, and what a browser does.
ACCEPTS = {
    f"{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;q=0.2": "protobuf",
    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": "openmetrics",
    "text/html,application/xhtml+xml,*/*;q=0.8": "text/plain",
    "": "text/plain",
    "application/vnd.google.protobuf;proto=another;encoding=delimited": "text/plain",
    "application/openmetrics-text;version=2.0.0": "text/plain",
    f"{PROTOBUF};q=0,text/plain;q=0.1": "text/plain",
    f"{PROTOBUF};q=x,;;=,": "text/plain",
}
READING = Reading("host", 60.0, (Point("ssllatency.targets", (("service", "a"),), 3, 0.0),))


@pytest.mark.parametrize("accept", ACCEPTS)
def test_a_scraper_gets_what_it_likes_best(accept: str) -> None:
    content_type, render = chosen(accept)
    assert ACCEPTS[accept] in content_type
    assert b"ssllatency_targets" in b"".join(render(READING))


@contextmanager
def served(site: ServedMetrics, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(socket.create_server(("127.0.0.1", 0)), site, tls)
    with answering(server):
        yield server


def site(**others: object) -> ServedMetrics:
    return ServedMetrics(lambda: READING, lambda: True, **others)  # type: ignore[arg-type]


def get(
    server: Server, path: str, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> http.client.HTTPResponse:
    host, port = server.server_address[:2]
    connection = (
        http.client.HTTPSConnection(str(host), port, timeout=20, context=tls)
        if tls
        else http.client.HTTPConnection(str(host), port, timeout=20)
    )
    connection.request("GET", path, headers=dict(headers or {}))
    return connection.getresponse()


def test_each_path_is_there() -> None:
    with served(site(headers=(("X-Frame-Options", "deny"),))) as server:
        assert [get(server, path).status for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/etc/passwd", "/../x")] == [
            *(200, 200, 200, 200, 404, 404)
        ]
        answer = get(server, "/metrics", {"Accept-Encoding": "gzip"})
        assert answer.headers["X-Frame-Options"] == "deny"
        assert b'ssllatency_targets{service="a"} 3\n' in gzip.decompress(answer.read())


def test_a_connection_serves_many_requests() -> None:
    with served(site()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        for _ in range(3):
            connection.request("GET", "/metrics")
            assert b"ssllatency_targets" in connection.getresponse().read()


def test_what_is_not_ready_says_so() -> None:
    def nothing() -> Reading:
        raise NoReading("Nothing is traced yet.")

    with served(ServedMetrics(nothing, lambda: False)) as server:
        assert [get(server, path).status for path in ("/metrics", "/-/ready", "/-/healthy")] == [503, 503, 200]


def test_passwords_are_asked_for_on_all_paths() -> None:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    with served(site(passwords=Passwords({"ann": hashed}))) as server:

        def status(user: str, password: str, path: str = "/metrics") -> int:
            encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
            return get(server, path, {"Authorization": f"Basic {encoded}"}).status

        assert [status("ann", "secret"), status("ann", "secret", "/-/healthy"), status("ann", "secret")] == [200] * 3
        assert [status("ann", "wrong"), status("bob", "secret"), status("", ""), status("ann:secret", "")] == [401] * 4
        assert [get(server, path).status for path in ("/metrics", "/-/healthy", "/-/ready", "/")] == [401] * 4
        assert get(server, "/", {"Authorization": "Basic ****"}).status == 401


def test_tls_by_the_web_configuration(tmp_path: Path) -> None:
    made = make_certificate("ECDSA-P-256", tmp_path, "server")
    (tmp_path / "web.yml").write_text(
        f"tls_server_config:\n  cert_file: {Path(made.certificate).name}\n  key_file: {Path(made.key).name}\n"
        "  min_version: TLS13\nhttp_server_config:\n  http2: false\n  headers: {X-Frame-Options: deny}\n"
    )
    config = read(str(tmp_path / "web.yml"))
    client = ssl.create_default_context(cafile=str(made.certificate))
    client.check_hostname = False
    with served(site(headers=config.headers), config.tls) as server:
        assert get(server, "/metrics", tls=client).status == 200
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            get(server, "/metrics", tls=client)
        with pytest.raises((OSError, http.client.HTTPException)):
            get(server, "/metrics")


def test_clients_must_show_a_certificate_where_that_is_asked_for(tmp_path: Path) -> None:
    made = make_certificate("ECDSA-P-256", tmp_path, "server")
    (tmp_path / "web.yml").write_text(
        f"tls_server_config: {{cert_file: {made.certificate}, key_file: {made.key}, client_ca_file: {made.certificate},"
        " client_auth_type: RequireAndVerifyClientCert}\n"
    )
    client = ssl.create_default_context(cafile=str(made.certificate))
    client.check_hostname = False
    with served(site(), read(str(tmp_path / "web.yml")).tls) as server:
        with pytest.raises((OSError, http.client.HTTPException)):
            get(server, "/metrics", tls=client).read()
        client.load_cert_chain(made.certificate, made.key)
        assert get(server, "/metrics", tls=client).status == 200


WRONG = {
    "basic_auth_users: {ann: secret}": "bcrypt",
    "tls_server_config: {cert_file: a.pem}": "needs cert_file and key_file",
    "tls_server_config: {cert_file: a.pem, key_file: b.pem}": "can't be loaded",
    "tls_server_config: {cert_file: a.pem, key_file: b.pem, client_auth_type: RequireAnyClientCert}": "isn't supported",
    "tls_server_config: {cert_file: a.pem, key_file: b.pem, client_ca_file: c.pem}": "go together",
    "tls_server_config: {cert_file: [1], key_file: b.pem}": "isn't text",
    "rate_limit: {}": "isn't supported",
    "[1, 2]": "isn't a mapping",
    "{": "isn't YAML",
    "http_server_config: {headers: {Server: x}}": "isn't supported",
    'http_server_config: {headers: {X-Frame-Options: "a\\r\\nb"}}': "isn't printable",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_web_configuration_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(text)
    with pytest.raises(SsllatencyError, match=WRONG[text]) as caught:
        read(str(tmp_path / "web.yml"))
    assert "\n" not in str(caught.value)


def connected(server: Server) -> socket.socket:
    return socket.create_connection(server.server_address[:2], timeout=20)


def wait_for_connections(server: Server, number: int, busy: int) -> None:
    wait_for(lambda: (server.connections.number, server.connections.busy) == (number, busy))


def test_a_slow_client_is_ended_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.2)
    with served(site()) as server:
        slow = connected(server)
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert slow.recv(10) == b""
        assert get(server, "/-/healthy").status == 200


def test_silent_connections_keep_nobody_out() -> None:
    """As many as any one may have, and more: the oldest of them goes for each that comes."""
    with served(site()) as server:
        silent = [connected(server) for _ in range(40)]
        for path in ("/metrics", "/-/healthy") * 20:
            assert get(server, path).status == 200
        assert server.connections.number <= server.connections.share
        assert silent[0].recv(10) == b""


def test_a_client_that_was_answered_goes_last() -> None:
    with served(site()) as server:
        first = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        first.request("GET", "/metrics")
        first.getresponse().read()
        wait_for_connections(server, 1, 0)
        for _ in range(60):
            connected(server)
        first.request("GET", "/metrics")
        assert first.getresponse().status == 200


def test_an_idle_connection_makes_room_for_a_new_one() -> None:
    with served(site()) as server:
        server.connections.most = 2
        first = [http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20) for _ in range(2)]
        for one in first:
            one.request("GET", "/-/healthy")
            one.getresponse().read()
        wait_for_connections(server, 2, 0)
        assert get(server, "/-/healthy").status == 200
        assert server.connections.refused == 1


def test_health_checks_have_room_of_their_own_while_all_others_are_answered() -> None:
    asked, go = Event(), Event()

    def late() -> Reading:
        asked.set()
        assert go.wait(20)
        return READING

    with served(ServedMetrics(late, lambda: True)) as server:
        server.connections.most = 1
        slow = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        slow.request("GET", "/metrics")
        assert asked.wait(20)
        assert get(server, "/-/healthy").status == 200
        while server.connections.number > 1:  # one that rests would make room
            time.sleep(0.01)
        refused = get(server, "/metrics")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        go.set()
        assert slow.getresponse().status == 200


def test_networks_have_shares() -> None:
    """Others find room beside one that has as much as it may."""
    kept = Connections(most=4, share=2)
    greedy, others = [socket.socket() for _ in range(3)], [socket.socket() for _ in range(2)]
    for one, address in zip(greedy, ("2001:db8::1", "2001:db8::2", "2001:db8::3"), strict=True):
        assert kept.admit(one, address)
    assert kept.number == 2
    for one, address in zip(others, ("192.0.2.1", "::ffff:192.0.2.1"), strict=True):
        assert kept.admit(one, address)
    assert kept.number == 4
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("") == ""


def test_metrics_are_rendered_once_of_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """And after that the heap is trimmed, not for each answer."""
    readings, made, trimmed = [READING], [], []
    content_type, render = server_module.chosen("")

    def rendered(reading: Reading) -> Sequence[bytes]:
        made.append(1)
        return render(reading)

    monkeypatch.setattr(server_module, "chosen", lambda _: (content_type, rendered))
    monkeypatch.setattr(server_module, "trim_heap", lambda: trimmed.append(1))
    with served(ServedMetrics(lambda: readings[-1], lambda: True)) as server:
        bodies = [get(server, "/metrics").read() for _ in range(5)]
        assert len(made) == 1
        readings.append(Reading("host", 61.0, READING.points))
        assert get(server, "/metrics").status == 200
        assert len(made) == 2
        assert get(server, "/metrics", {"Accept-Encoding": "gzip"}).status == 200
        assert len(made) == 3
        wait_for(lambda: server._is_trimmed)
        assert 0 < len(trimmed) <= 3
    assert len(set(bodies)) == 1


@pytest.mark.parametrize("accept", ["", PROTOBUF])
def test_what_is_sent_in_pieces_is_one_answer(accept: str) -> None:
    points = [Point("ssllatency.targets", (("service", f"{number:0500}"),), number, 0.0) for number in range(500)]
    large = Reading("host", 60.0, tuple(points))
    expected = b"".join(chosen(accept)[1](large))
    assert len(expected) > 3 * server_module._BATCH
    with served(ServedMetrics(lambda: large, lambda: True)) as server:
        answers = [
            get(server, "/metrics", {"Accept": accept, "Accept-Encoding": encoding}) for encoding in ("identity", "gzip")
        ]
        bodies = [answer.read() for answer in answers]
        lengths = [int(answer.headers["Content-Length"]) for answer in answers]
    assert bodies[0] == gzip.decompress(bodies[1]) == expected
    assert lengths == [len(body) for body in bodies]
    assert len(bodies[1]) < len(expected) / 10


def test_requests_that_come_one_on_the_other_are_answered_one_after_the_other() -> None:
    with served(site()) as server, connected(server) as client:
        began_s = time.monotonic()
        client.sendall(b"GET /-/healthy HTTP/1.1\r\n\r\n" * 4 + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: client.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 200") == 5
    assert time.monotonic() - began_s >= 4 * server_module._APART_S


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9743", 200),
        ("127.0.0.1", 200),
        ("[::1]:9743", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:9743", 421),
        ("192.0.2.7:9743", 421),
        ("a b", 421),
        ("localhost@evil.example", 421),
    ],
)
def test_a_page_elsewhere_can_not_ask_us_by_a_name_of_its_own(host: str, status: int) -> None:
    with served(site()) as server:
        for path in ("/metrics", "/-/healthy"):
            assert get(server, path, {"Host": host}).status == status


def test_where_others_may_ask_they_know_us_by_their_names() -> None:
    assert may_ask("web1.example:9743", "0.0.0.0")
    assert may_ask("web1.example", "192.0.2.1")
    assert may_ask("", "127.0.0.1")
    assert not may_ask("web1.example", "::1")
    assert not may_ask("web1/x", "0.0.0.0")


def test_a_password_that_is_remembered_waits_for_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = Passwords({"ann": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()})

    def header(user: str, password: str) -> str:
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    assert passwords.admit(header("ann", "secret"))
    waiting, go = Event(), Event()

    def slow(*_: bytes) -> bool:
        waiting.set()
        assert go.wait(20)
        return False

    monkeypatch.setattr(passwords, "_check", slow)
    strangers = [Thread(target=passwords.admit, args=(header("eve", str(number)),)) for number in range(MOST_WAITING)]
    for stranger in strangers:
        stranger.start()
    assert waiting.wait(20)
    wait_for(lambda: passwords._room._value == 0)  # type: ignore[attr-defined]
    assert passwords.admit(header("ann", "secret"))
    with pytest.raises(Busy):
        passwords.admit(header("eve", "more"))
    go.set()
    for stranger in strangers:
        stranger.join()


def test_an_unknown_name_is_checked_at_the_price_of_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = Passwords({"ann": bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()})
    asked: list[bytes] = []
    monkeypatch.setattr(passwords, "_check", lambda _, hashed: bool(asked.append(hashed)) or bcrypt.checkpw(b"x", hashed))
    for user in ("ann", "bob"):
        assert not passwords.admit("Basic " + base64.b64encode(f"{user}:x".encode()).decode())
    assert [hashed[:7] for hashed in asked] == [b"$2b$05$"] * 2


def test_a_request_without_end_is_refused() -> None:
    with served(site()) as server, socket.create_connection(server.server_address[:2], timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(300)) + b"\r\n")
        assert b" 431 " in client.recv(100)
