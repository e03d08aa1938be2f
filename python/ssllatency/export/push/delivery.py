# SPDX-License-Identifier: Apache-2.0
"""One request to an OTLP receiver, and what its answer means."""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Thread
from typing import Any

from ssllatency import __version__
from ssllatency.export.push.settings import PushSettings

_AGAIN = (429, 502, 503, 504)
_LARGEST_ANSWER = 1 << 20
_LONGEST_WAIT_S = 300.0
_PROTOBUF = "application/x-protobuf"
_COMPRESSION = 1
_LOOK_AGAIN_S = 0.5


class Again(Exception):
    """To be sent again, after `after_s` seconds where the receiver says so."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """Sending it again is of no use."""


class Delivery:
    """Sends. What https needs is loaded once, at the start."""

    def __init__(self, settings: PushSettings) -> None:
        import encodings.idna  # noqa: F401 - what looks up a host's name needs it, and then no file can be relied on

        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages

        self._settings, self._context = settings, settings.tls()
        self._answer: Any = messages.ExportMetricsServiceResponse
        # The google.rpc.Status of a refusal has its code and its text where this has a number and a text.
        self._status: Any = messages.ExportMetricsPartialSuccess

    def send(self, content: bytes) -> tuple[int, str]:
        """Send it, and return how many data points were rejected, and the receiver's words, "" for none. Again or Refused where
        it wasn't taken."""
        headers = {"Content-Type": _PROTOBUF, "User-Agent": f"ssllatency/{__version__}", **dict(self._settings.headers)}
        if self._settings.gzip:
            content, headers["Content-Encoding"] = gzip.compress(content, _COMPRESSION), "gzip"
        connection = self._connection()
        try:
            with _over_after(connection, self._settings.timeout_s):
                connection.request("POST", self._settings.path, content, headers)
                response = connection.getresponse()
                answer = response.read(_LARGEST_ANSWER)
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"its certificate isn't trusted: {error.verify_message}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Again(f"no answer ({error or type(error).__name__})") from None
        finally:
            connection.close()
        is_protobuf = response.getheader("Content-Type", "") == _PROTOBUF
        return self._judge(response.status, response.getheader("Retry-After", ""), answer, is_protobuf=is_protobuf)

    def _connection(self) -> http.client.HTTPConnection:
        host, port, timeout = self._settings.host, self._settings.port, self._settings.timeout_s
        if self._context:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _judge(self, status: int, after: str, answer: bytes, *, is_protobuf: bool) -> tuple[int, str]:
        if status in _AGAIN:
            raise Again(f"it answered {status}", seconds_after(after))
        if not 200 <= status < 300:
            words = _parsed(self._status(), answer).error_message.encode() if is_protobuf else answer
            raise Refused(f"it answered {status} ({_words(words)})")
        partial = _parsed(self._answer(), answer).partial_success  # what can't be read was taken all the same
        return max(0, partial.rejected_data_points), _words(partial.error_message.encode())


@contextmanager
def _over_after(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Has the connection end after that time, however little by little the receiver answers: each of its bytes would else begin
    the socket's own timeout anew. TimeoutError where it had to."""
    done, over = Event(), Event()

    def end() -> None:
        left_s = seconds
        while not done.wait(left_s):
            over.set()
            with suppress(OSError, AttributeError):  # it isn't connected yet
                connection.sock.shutdown(socket.SHUT_RDWR)
            left_s = _LOOK_AGAIN_S

    Thread(target=end, daemon=True).start()
    try:
        yield
    finally:
        done.set()
    if over.is_set():  # what was cut off may look like a whole answer
        raise TimeoutError(f"not all of it came within {seconds:g} s")


def seconds_after(text: str) -> float:
    """Return what a Retry-After header asks for, bounded; 0 where it says nothing that makes sense."""
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), _LONGEST_WAIT_S)
    try:
        left = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, left), _LONGEST_WAIT_S)


def _parsed(message: Any, content: bytes) -> Any:
    """The message, filled, or empty where the content can't be read."""
    try:
        message.ParseFromString(content)
    except Exception:  # the protobuf library's own, which differs by its version
        message.Clear()
    return message


def _words(answer: bytes) -> str:
    text = " ".join(answer[:300].decode(errors="replace").split())
    return "".join(character if character.isprintable() else "?" for character in text)
