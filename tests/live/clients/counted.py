# SPDX-License-Identifier: Apache-2.0
"""TLS clients whose connections are known one by one, and what a server's nginx must have called for each of them.

`Client` speaks through Python's ssl module and sees each connection to its very end, so that its counts are exact. The others
drive load generators and return what those say they completed.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.live.servers.nginx import Certificate

TIMEOUT_S = 20.0
TLS_1_2 = ssl.TLSVersion.TLSv1_2
TLS_1_3 = ssl.TLSVersion.TLSv1_3


class ClientError(RuntimeError):
    """A client could not do, or did not say, what was asked of it."""


@dataclass(frozen=True)
class Exchange:
    """What one connection did. `responses` are whole, header and body; `session` resumes it in another connection."""

    version: str
    cipher: str
    resumed: bool
    responses: tuple[bytes, ...]
    session: ssl.SSLSession | None


@dataclass(frozen=True)
class Load:
    """What a load generator completed: requests in all, and requests a second."""

    requests: int
    rate: int


class Client:
    """A TLS client of one protocol version. `ciphers` is an OpenSSL cipher list for TLS 1.2; `certificate` its own."""

    def __init__(
        self, port: int, version: ssl.TLSVersion, ciphers: str = "", *, certificate: Certificate | None = None
    ) -> None:
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.minimum_version = self._context.maximum_version = version
        if ciphers:
            self._context.set_ciphers(ciphers)
        if certificate:
            self._context.load_cert_chain(certificate.certificate, certificate.key)

    def connect(
        self, *, requests: int = 1, path: str = "/", request_size: int = 0, session: ssl.SSLSession | None = None
    ) -> Exchange:
        """Make one connection of `requests` kept-alive requests, close it, and wait until the server has closed it as well.

        `request_size` pads each request to that many bytes in all; each goes out as one TLS record.
        """
        with socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, session=session) as tls:
                request = _request(path, request_size)
                responses = tuple(_ask(tls, request) for _ in range(requests))
                exchange = _exchange(tls, responses)
                _close(tls)
        return exchange

    def turn_to(self, port: int) -> None:
        """Connect to this port from now on. Sessions stay what they are."""
        self._port = port

    def connect_times(
        self, times: int, *, requests: int = 1, path: str = "/", request_size: int = 0, session: ssl.SSLSession | None = None
    ) -> list[Exchange]:
        """The same connection several times, one after the other. With a `session`, each resumes the one before it."""
        exchanges: list[Exchange] = []
        for _ in range(times):
            exchanges.append(self.connect(requests=requests, path=path, request_size=request_size, session=session))
            session = exchanges[-1].session if session else None
        return exchanges


def server_calls(exchanges: Iterable[Exchange], key: str) -> dict[str, int]:
    """The successful calls that nginx must have made for these connections, by function of OpenSSL 3, with an X25519 group.

    A handshake is one successful SSL_do_handshake; each request one SSL_read and each response one SSL_write, as both are
    small; each end one SSL_shutdown. A full handshake needs the private key once: to sign, or to decrypt where the key
    exchange is RSA's. ECDHE is done in every full handshake, and in TLS 1.3 in the resumed ones too.
    """
    calls: Counter[str] = Counter()
    for exchange in exchanges:
        calls.update({"SSL_do_handshake": 1, "SSL_shutdown": 1})
        calls.update({"SSL_read": len(exchange.responses), "SSL_write": len(exchange.responses)})
        by_rsa = exchange.version == "TLSv1.2" and "DHE" not in exchange.cipher
        signed = not exchange.resumed and not by_rsa
        agreed = exchange.version == "TLSv1.3" or signed
        calls["rsa_ossl_private_encrypt"] += signed and key == "rsa"
        calls["rsa_ossl_private_decrypt"] += by_rsa and not exchange.resumed
        calls["ossl_ecdsa_sign"] += signed and key == "ecdsa"
        calls["ossl_ecdsa_sign_sig"] += signed and key == "ecdsa"
        calls["EVP_PKEY_keygen"] += agreed
        calls["ecx_derive"] += agreed
    return dict(calls)


def s_client(port: int, *options: str) -> str:
    """One connection with one request by `openssl s_client`, and what it printed."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-ign_eof", *options]
    request = "GET / HTTP/1.0\r\n\r\n"
    done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if "200 OK" not in done.stdout:
        raise ClientError(f"openssl s_client got no answer: {done.stderr[-500:]}")
    return done.stdout


def s_time(port: int, seconds: int, *options: str, resume: bool = False) -> int:
    """`openssl s_time` for some seconds, one connection after the other, each with one request: the connections completed.

    With `resume` the one that made the session is counted as well; s_time leaves it out.
    """
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-www", "/", "-time", str(seconds), *options]
    output = _output([*command, "-reuse" if resume else "-new"], seconds + TIMEOUT_S)
    return _number(r"^(\d+) connections in \d+ real seconds", output) + resume


def h2load(port: int, connections: int, *, parallel: int) -> int:
    """h2load with HTTP/1.1, a new TLS connection for each request: the requests that succeeded.

    Raises ClientError when one did not succeed.
    """
    command = ["h2load", "--h1", "-H", "Connection: close", "-n", str(connections), "-c", str(parallel)]
    output = _output([*command, f"https://127.0.0.1:{port}/"], 120 + TIMEOUT_S)
    done = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output)
    if done is None or done.groups() != (str(connections),) * 2 + ("0",) * 3:
        raise ClientError(f"h2load did not complete all of its connections: {output[-600:]}")
    return int(done[2])


def wrk(port: int, seconds: int, *options: str, connections: int = 16, prefix: Sequence[str] = ()) -> Load:
    """wrk with one thread. `prefix` is a command to run it under, such as taskset's.

    Raises ClientError when it completed nothing or met an error.
    """
    command = [*prefix, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *options, f"https://127.0.0.1:{port}/"]
    output = _output(command, seconds + TIMEOUT_S)
    completed = _number(r"^\s*(\d+) requests in ", output)
    if not completed or "Non-2xx" in output or "Socket errors" in output:
        raise ClientError(f"wrk met errors: {output[-600:]}")
    return Load(completed, _number(r"^Requests/sec:\s+(\d+)", output))


def _exchange(tls: ssl.SSLSocket, responses: tuple[bytes, ...]) -> Exchange:
    cipher = tls.cipher()
    return Exchange(tls.version() or "", cipher[0] if cipher else "", bool(tls.session_reused), responses, tls.session)


def _request(path: str, size: int) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
    padding = size - len(f"{head}X: \r\n\r\n")
    if size and padding < 0:
        raise ClientError(f"a request for {path} has more than {size} bytes")
    return f"{head}X: {'x' * padding}\r\n\r\n".encode() if size else f"{head}\r\n".encode()


def _ask(tls: ssl.SSLSocket, request: bytes) -> bytes:
    tls.sendall(request)
    response = b""
    while not _complete(response):
        if not (piece := tls.recv(65536)):
            raise ClientError(f"the server closed the connection after {response!r}")
        response += piece
    return response


def _complete(response: bytes) -> bool:
    head, end, body = response.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE)
    return bool(end) and length is not None and len(body) >= int(length[1])


def _close(tls: ssl.SSLSocket) -> None:
    # Our close_notify makes the server close; the end of the stream says that its SSL_shutdown has returned. nginx sends no
    # close_notify of its own on a kept connection, which newer Pythons (3.13, with OpenSSL 3.5) take for an error.
    with contextlib.suppress(ssl.SSLEOFError), tls.unwrap() as plain:
        while plain.recv(4096):
            pass


def _output(command: Sequence[str], timeout_s: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise ClientError(f"{command[0]} failed: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise ClientError(f"nothing like {pattern!r} in {text[-300:]!r}")
    return int(found[1])
