# SPDX-License-Identifier: Apache-2.0
"""Prometheus' HTTP API: queries over a range of time, with bounds on what an answer may take."""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from ssllatency.bounded_json import parsed
from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError

TOKEN = "SSLLATENCY_PROMETHEUS_TOKEN"
_TIMEOUT_S = 60
_MOST_BYTES = 32 << 20  # of which Python makes some 25 times as much
_MOST_OF_AN_ERROR, _MOST_OF_A_REFUSAL = 300, 1 << 16

Answer = list[Mapping[str, object]]


class _Staying(urllib.request.HTTPRedirectHandler):
    """Follows nobody elsewhere: the password or token is for the server that was named alone."""

    def redirect_request(self, *_: object) -> None:
        """None: the redirection is the answer."""


_OPENER = urllib.request.build_opener(_Staying)


@dataclass(frozen=True)
class Range:
    """From when to when, by the Unix epoch's seconds, and how far the samples are apart."""

    start_s: float
    end_s: float
    step_s: float


class Prometheus:
    """A server by its URL, which may hold a user and a password; a bearer token is taken from the environment (TOKEN).

    SsllatencyError where the URL isn't one of HTTP.
    """

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SsllatencyError(f"{url} isn't the URL of a Prometheus server, such as http://127.0.0.1:9090.", 2)
        self.name = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._headers = {"Accept": "application/json"}
        if parts.username is not None:
            user, password = (urllib.parse.unquote(text or "") for text in (parts.username, parts.password))
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        elif token := os.environ.get(TOKEN):
            self._headers["Authorization"] = f"Bearer {token}"

    def query_range(self, expression: str, over: Range) -> Answer:
        """The series of the expression, sampled over the range. SsllatencyError where there is no answer."""
        times = {"start": f"{over.start_s:.3f}", "end": f"{over.end_s:.3f}", "step": f"{over.step_s:.3f}"}
        return self._answer("query_range", {"query": expression, **times})

    def query(self, expression: str, at_s: float) -> Answer:
        """The series of the expression at a time."""
        return self._answer("query", {"query": expression, "time": f"{at_s:.3f}"})

    def _answer(self, path: str, parameters: Mapping[str, str]) -> Answer:
        request = urllib.request.Request(
            f"{self.name}/api/v1/{path}", urllib.parse.urlencode(parameters).encode(), self._headers, method="POST"
        )
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
                content = response.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except http.client.HTTPException as error:
            raise SsllatencyError(f"{self.name} doesn't answer by HTTP ({type(error).__name__}).") from None
        except (OSError, urllib.error.URLError) as error:
            reason = getattr(error, "reason", None) or error
            raise SsllatencyError(f"{self.name} doesn't answer: {getattr(reason, 'strerror', None) or reason}.") from None
        if len(content) > _MOST_BYTES:
            raise SsllatencyError(f"{self.name} answers with too much: use a shorter time or longer steps (--step).")
        return self._series(content)

    def _refused(self, error: urllib.error.HTTPError) -> SsllatencyError:
        if 300 <= error.code < 400:
            where = "".join(letter for letter in error.headers.get("Location", "")[:_MOST_OF_AN_ERROR] if letter.isprintable())
            return SsllatencyError(f"{self.name} is elsewhere ({where or 'it does not say where'}): name that URL instead.")
        try:
            said = str(json.loads(error.read(_MOST_OF_A_REFUSAL))["error"])
        except (ValueError, KeyError, TypeError, OSError, RecursionError, http.client.HTTPException):
            said = f"HTTP status {error.code}"
        said = "".join(letter if letter.isprintable() else " " for letter in said[:_MOST_OF_AN_ERROR])
        return SsllatencyError(f"{self.name} refuses the query: {said}.")

    def _series(self, content: bytes) -> Answer:
        try:
            series = parsed(content.decode())["data"]["result"]
            assert isinstance(series, list)
            assert all(isinstance(one, dict) for one in series)
        except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
            raise SsllatencyError(f"{self.name} doesn't answer as Prometheus does.") from None
        return series
