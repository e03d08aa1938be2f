# SPDX-License-Identifier: Apache-2.0
"""The HTTP server on loopback: formats by what is asked for, TLS, passwords, slow and many clients."""

from __future__ import annotations

import base64
import gzip
import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest
from tests.answering import answering

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import NoReading, Point, Reading
from ssllatency.export.serve import connections
from ssllatency.export.serve.negotiation import chosen
from ssllatency.export.serve.passwords import Passwords
from ssllatency.export.serve.server import Server, Site
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
    assert b"ssllatency_targets" in render(READING)


@contextmanager
def served(site: Site, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(socket.create_server(("127.0.0.1", 0)), site, tls)
    with answering(server):
        yield server


def site(**others: object) -> Site:
    return Site(lambda: READING, lambda: True, **others)  # type: ignore[arg-type]


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

    with served(Site(nothing, lambda: False)) as server:
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


def test_a_slow_client_is_ended_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 2)
    with served(site()) as server:
        server.connections._most, server.connections._request_s = 2, 0.2
        slow = [socket.create_connection(server.server_address[:2], timeout=20) for _ in range(2)]
        for one in slow:
            one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        deadline = time.monotonic() + 20
        while server.connections._busy_since and time.monotonic() < deadline:
            server.connections.end_slow()
            time.sleep(0.01)
        assert [one.recv(10) for one in slow] == [b"", b""]
        assert get(server, "/-/healthy").status == 200


def test_an_idle_connection_makes_room_for_a_new_one() -> None:
    with served(site()) as server:
        server.connections._most = 2
        first = [http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20) for _ in range(2)]
        for one in first:
            one.request("GET", "/-/healthy")
            one.getresponse().read()
        deadline = time.monotonic() + 20
        while set(server.connections._busy_since.values()) != {None} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert get(server, "/-/healthy").status == 200
        assert server.connections.refused == 1


def test_a_request_without_end_is_refused() -> None:
    with served(site()) as server, socket.create_connection(server.server_address[:2], timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(300)) + b"\r\n")
        assert b" 431 " in client.recv(100)
