# SPDX-License-Identifier: Apache-2.0
"""Where a tool's own arguments lead, and how long they make it run."""

from __future__ import annotations

import pytest

from ssllatency.load.arguments import Endpoint, endpoint, expected_s, refuse_plain
from ssllatency.load.figures import LoadError


@pytest.mark.parametrize(
    ("tool", "arguments", "where"),
    [
        ("s_time", "", Endpoint("localhost", 4433)),
        ("s_time", "-new -connect www.example.com:443 -time 3", Endpoint("www.example.com", 443)),
        ("s_time", "-connect [::1]:4433", Endpoint("::1", 4433)),
        ("s_time", "--connect :4433", Endpoint("localhost", 4433)),
        ("wrk", "-t2 -c100 https://127.0.0.1:8443/page?a=b:1", Endpoint("127.0.0.1", 8443)),
        ("wrk", "-H Referer:https://other:1/ https://www.example.com", Endpoint("www.example.com", 443)),
        ("ab", "-n 10 HTTPS://[fe80::1]:8443/", Endpoint("fe80::1", 8443)),
        ("ab", "https://user:word@host:1/", Endpoint("host", 1)),
        ("h2load", "-n 10 https://www.example.com/ --connect-to=127.0.0.1:8443", Endpoint("127.0.0.1", 8443)),
    ],
)
def test_where(tool: str, arguments: str, where: Endpoint) -> None:
    assert endpoint(tool, arguments.split()) == where


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("wrk", "-t2", "no https:// URL"),
        ("h2load", "-i uris.txt", "no https:// URL"),
        ("ab", "https://host:0/", "isn't HOST:PORT"),
        ("ab", "https://host:99999/", "isn't HOST:PORT"),
        ("ab", "https://[::1/", "isn't HOST:PORT"),
        ("s_time", "-connect ::1:4433", "isn't HOST:PORT"),
    ],
)
def test_nowhere(tool: str, arguments: str, word: str) -> None:
    with pytest.raises(LoadError, match=word) as caught:
        endpoint(tool, arguments.split())
    assert caught.value.status == 2


def test_http_without_tls_is_refused() -> None:
    with pytest.raises(LoadError, match="without TLS"):
        refuse_plain("ab", ["-n", "1", "http://127.0.0.1/"])
    refuse_plain("ab", ["https://127.0.0.1/"])
    refuse_plain("s_time", ["-www", "http://127.0.0.1/"])


@pytest.mark.parametrize(
    ("tool", "arguments", "seconds"),
    [
        ("s_time", "-new", 30),
        ("s_time", "-new -time 5", 5),
        ("s_time", "-time 5", 10),
        ("s_time", "", 60),
        ("wrk", "-t2", 10),
        ("wrk", "-d 2m", 120),
        ("wrk", "-d2s -c10", 2),
        ("wrk", "--duration=1h", 3600),
        ("wrk", "-d soon", None),
        ("ab", "-n 100", None),
        ("ab", "-t 7 -n 100", 7),
        ("h2load", "-n 100", None),
        ("h2load", "-D 500ms", 0.5),
        ("h2load", "--duration=3 --warm-up-time=2", 5),
    ],
)
def test_how_long(tool: str, arguments: str, seconds: float | None) -> None:
    assert expected_s(tool, arguments.split()) == seconds
