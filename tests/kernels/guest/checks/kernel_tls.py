# SPDX-License-Identifier: Apache-2.0
"""An nginx whose connections the kernel encrypts (kTLS): handshakes and calls are counted as ever, the bytes of SSL_sendfile
are those of the file, and it is said that the kernel may send more."""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ssllatency.load.matrix.servers.process import free_ports
from tests.kernels.guest.servers import TIMES, Handshakes, assert_same, certificates
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client, server_calls
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import losses
from tests.live.servers.nginx import Nginx, Settings, make_certificate

_FILE_BYTES, _REQUESTS = 300_000, 3  # on each connection
_SERVER = """
ssl_conf_command Options KTLS;
sendfile on;
server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {pair.certificate};
    ssl_certificate_key {pair.key};
    ssl_ciphers ECDHE+AESGCM;
    root {folder};
}}
"""


@contextmanager
def _serving_a_file() -> Iterator[tuple[Nginx, int]]:
    """The server, and the port at which it serves /file."""
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "file").write_bytes(b"x" * _FILE_BYTES)
        directives = _SERVER.format(port=port, pair=make_certificate("ecdsa", certificates()), folder=folder)
        with Nginx(certificates(), Settings(curve="X25519", directives=directives)) as nginx:
            yield nginx, port


def _encrypted_so_far() -> int:
    """How many connections the kernel has encrypted the sending of."""
    lines = (line.split() for line in Path("/proc/net/tls_stat").read_text().splitlines())
    return next(int(value) for name, value in lines if name == "TlsTxSw")


@contextmanager
def _kept_open(port: int) -> Iterator[None]:
    """A connection on which nothing happens any more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"HEAD /file HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert tls.recv(4096).startswith(b"HTTP/1.1 200 OK")
        yield


def counted() -> dict[str, Any]:
    """By `handshakes` and `snoop` at the same time."""
    with _serving_a_file() as (nginx, port), _kept_open(port):
        before, pid = _encrypted_so_far(), nginx.master_pid
        with Handshakes(pid) as handshakes, Snoop(pid, options=("--json",)) as snoop:
            exchanges = [
                exchange
                for version in (TLS_1_2, TLS_1_3)
                for exchange in Client(port, version).connect_times(TIMES, requests=_REQUESTS, path="/file")
            ]
        encrypted = _encrypted_so_far() - before
    assert encrypted == len(exchanges), f"the kernel encrypted {encrypted} of {len(exchanges)} connections"
    assert losses(handshakes.document) == {}, f"lost: {losses(handshakes.document)}"
    assert handshakes.successful == len(exchanges), f"{handshakes.successful} handshakes"
    notes = " ".join(handshakes.document["notes"])
    assert "The kernel encrypts what 1 connection of this network namespace sends (kTLS)" in notes, f"said: {notes}"
    calls = [call for call in snoop.calls() if call["outcome"] == "success"]
    sent = [call["bytes"] for call in calls if call["function"] == "SSL_sendfile"]
    assert sum(sent) == len(exchanges) * _REQUESTS * _FILE_BYTES, f"{sum(sent)} bytes by SSL_sendfile"
    expected = server_calls(exchanges, "ecdsa")  # nginx has SSL_write take each header
    return {**assert_same(Counter(call["function"] for call in calls), expected), "calls of SSL_sendfile": len(sent)}
