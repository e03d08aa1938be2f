# SPDX-License-Identifier: Apache-2.0
"""What must hold of what others send over the network: requests to `export`, what a Prometheus answers to `history`, and how
long an OTLP receiver asks to wait."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, cast

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.families import BY_NAME
from ssllatency.export.metrics.points import Point, Reading
from ssllatency.export.push.delivery import seconds_after
from ssllatency.export.serve.ahead import Ahead
from ssllatency.export.serve.connections import Connections
from ssllatency.export.serve.passwords import Passwords
from ssllatency.export.serve.server import Handler, ServedMetrics, Server
from ssllatency.prometheus import history
from ssllatency.prometheus.client import Prometheus, Range
from ssllatency.prometheus.samples import series_of
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.documents.recording_reading import from_text
from tests.fuzz.host_invariants import histogram
from tests.fuzz.text_invariants import check_report

_READING = Reading("host", 60.0, (Point("ssllatency.targets", (("service", "a"),), 3, 0.0),))
_STATUSES = {200, 400, 401, 404, 408, 414, 421, 431, 501, 505}
_HEADERS = {"Server", "Date", "Content-Type", "Content-Length", "Content-Encoding", "Connection", "WWW-Authenticate"}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_OVER = Range(1000.0, 1120.0, 60.0)
_WANTED = history.Wanted("nginx")
_PROMETHEUS = Prometheus("http://127.0.0.1:9090")
_LONGEST_WAIT_S = 300


class _Connection:
    """A socket from which these bytes come, and then no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self.answer = data, b""

    def makefile(self, mode: str, _size: int = -1) -> BinaryIO:
        """What is read, or kept when it is closed."""
        return io.BufferedReader(io.BytesIO(self._data)) if "r" in mode else _Kept(self)  # type: ignore[arg-type,return-value]


class _Kept(io.BytesIO):
    def __init__(self, connection: _Connection) -> None:
        super().__init__()
        self._connection = connection

    def close(self) -> None:
        if not self.closed:
            self._connection.answer = self.getvalue()
        super().close()


class _Server:
    """As much of a server as a connection's handler uses."""

    def __init__(self, passwords: Passwords | None = None) -> None:
        self.site, self.connections = ServedMetrics(lambda: _READING, lambda: True, passwords), Connections()
        self.server_address = "127.0.0.1", 9743
        self.ahead = Ahead()  # whose thread isn't started: nothing is made ahead

    def rendered(self, _content_type: str, render: Any, *, compressed: bool) -> Sequence[bytes]:
        """The metrics, in pieces."""
        assert isinstance(compressed, bool)
        return cast("Sequence[bytes]", render(_READING))

    def trim(self) -> None:
        """Nothing: no memory is to be given back between two inputs."""


class _Unhurried(Handler):
    """Doesn't wait before the next answer on the same connection."""

    def handle_one_request(self) -> None:
        self._answered_s = float("-inf")
        super().handle_one_request()


def check_requests(data: bytes) -> None:
    """Of all that comes on a connection: each answer has a status and headers that we know, and nothing of the request among
    them; where nobody has the password, nobody gets the metrics."""
    _check_answer(_answer(data, _Server()))
    locked = _answer(data, _Server(_nobodys()))
    _check_answer(locked)
    assert b"ssllatency_targets" not in locked


def _answer(data: bytes, server: _Server) -> bytes:
    connection: Any = _Connection(data)
    _Unhurried(connection, ("127.0.0.1", 1), cast("Server", server), connection)
    return bytes(connection.answer).removeprefix(_CONTINUE)


def _nobodys() -> Passwords:
    """Passwords of which none is right, without the time that bcrypt takes."""
    passwords = Passwords({"ann": ""})
    passwords._check = lambda *_: False
    return passwords


def _check_answer(answer: bytes) -> None:
    if not answer.startswith(b"HTTP/"):
        return  # HTTP/0.9 has no headers
    first, *lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    assert int(first.split(" ")[1]) in _STATUSES
    assert {line.partition(":")[0] for line in lines} <= _HEADERS
    assert all(line.isprintable() for line in (first, *lines))


def requests() -> list[bytes]:
    """Of a scraper, of health checks, several on a connection, and of others."""
    return [
        b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9743\r\nAccept: text/plain;q=0.2\r\nAccept-Encoding: gzip\r\n\r\n",
        b"HEAD /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\nGET /-/healthy HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n\r\n",
        b"GET /?a HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
        b"GET /\r\n",
        b"GET / HTTP/1.1\r\nHost: ::\r\n folded\r\nTransfer-Encoding: chunked\r\n\r\n",
    ]


def check_answer(data: bytes) -> None:
    """Of what a Prometheus answers to a query, and of a receiver's header: series, or an error of ours; a bounded wait."""
    with suppress(SsllatencyError):
        series_of(_PROMETHEUS._series(data))
    assert 0 <= seconds_after(data.decode("latin-1")) <= _LONGEST_WAIT_S


def answers() -> list[bytes]:
    """Good ones, a refusal, and headers."""
    series = [{"metric": {"service": "nginx"}, "histograms": [[1.0, histogram()], [2.0, histogram()]]}]
    good = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    refusal = {"status": "error", "errorType": "bad_data", "error": "no"}
    return [*(json.dumps(one).encode() for one in (good, refusal)), b"120", b"Fri, 31 Dec 2030 23:59:59 GMT"]


class Answers:
    """A Prometheus that has these series, by their metrics' names."""

    name = "Prometheus"

    def __init__(self, series: Mapping[str, Any]) -> None:
        self._series = series

    def query_range(self, query: str, _over: Range) -> Any:
        """Those of the metric."""
        return next((series for name, series in self._series.items() if f"{name}{{" in query), [])


def check_history(data: bytes) -> None:
    """Of the recording that is made of a Prometheus' series: it is written, read again and reported, or is an error of ours."""
    try:
        series = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(series, dict) or not all(isinstance(one, list) for one in series.values()):
        return
    if not all(isinstance(one, dict) for found in series.values() for one in found):
        return
    try:
        recording = history.read(cast("Prometheus", Answers(series)), _WANTED, _OVER)
    except SsllatencyError:
        return
    lines = "".join(to_lines(recording, by_process=True))
    assert from_text(lines, "fuzzed").runs == recording.runs
    check_report(lines.encode())


def histories() -> list[bytes]:
    """Series of calls and of handshakes, counted between three scrapes."""
    times = [_OVER.start_s + number * _OVER.step_s for number in range(3)]
    timed = [[times[1], histogram()]]
    phases = {"private_key": 0.375, "rest": 0.125}
    counted = [[at_s, str(number)] for number, at_s in enumerate(times)]

    def series(values: object, kind: str = "values", **labels: str) -> dict[str, object]:
        return {"metric": {"instance": "web1", **labels}, kind: values}

    called = {"function": "SSL_read", "outcome": "failure"}
    of = {
        "ssllatency.build.info": series([[at_s, str(at_s)] for at_s in times], version="0.9", kernel="6.1", engine="libbpf"),
        "ssllatency.targets": series(counted),
        "ssllatency.call.duration": series(timed, "histograms", **called),
        "ssllatency.call.failures": series(counted, function="SSL_read", reason="SYSCALL"),
        "ssllatency.handshake.duration": series(timed, "histograms", outcome="success", tls_resumed="true"),
        "ssllatency.handshake.calls": series(timed, "histograms", outcome="success"),
        "ssllatency.handshake.errors": series(counted, outcome="failure", error="no shared cipher", sent="true"),
        "ssllatency.handshake.ciphers": series(counted, tls_cipher="TLS_AES_128_GCM_SHA256"),
        "ssllatency.private_key.operations": series(counted, operation="sign", key="RSA-2048"),
        "ssllatency.private_key.time": series(counted, operation="sign", key="RSA-2048"),
        "ssllatency.losses": series(counted, kind="calls"),
        "ssllatency.observed": series([[at_s, "0.5"] for at_s in times], function="SSL_read"),
    }
    named = {BY_NAME[name].prometheus_name: [found] for name, found in of.items()}
    named[BY_NAME["ssllatency.handshake.phase"].prometheus_name] = [
        series([[times[1], histogram(total_s)]], "histograms", outcome="success", phase=phase)
        for phase, total_s in phases.items()
    ]
    return [json.dumps(named).encode()]
