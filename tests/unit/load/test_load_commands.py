# SPDX-License-Identifier: Apache-2.0
"""The command lines that requests become, and the requests that a tool can't serve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssllatency.load.figures import LoadError, LoadRequest, closes
from ssllatency.load.tools.choice import TOOLS

TIMED = LoadRequest(port=4433, seconds=5)
COUNTED = LoadRequest(port=4433, requests=50, connections=5, threads=2, reuse=True)


def words(tool: str, request: LoadRequest) -> str:
    return " ".join(TOOLS[tool].command(request))


def test_s_time() -> None:
    assert words("s_time", TIMED) == "openssl s_time -connect 127.0.0.1:4433 -www / -time 5 -new"
    request = replace(TIMED, host="::1", reuse=True, version="TLSv1.3", cipher="TLS_AES_128_GCM_SHA256", page="/1k")
    assert words("s_time", request) == (
        "openssl s_time -connect [::1]:4433 -www /1k -time 5 -reuse -tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256"
    )
    request = replace(
        TIMED, version="TLSv1.2", cipher="AES128-SHA", ca="ca.pem", certificate="c.pem", key="k.pem", program="ssl"
    )
    assert words("s_time", request) == (
        "ssl s_time -connect 127.0.0.1:4433 -www / -time 5 -new -tls1_2 -cipher AES128-SHA"
        " -CAfile ca.pem -verify 9 -cert c.pem -key k.pem"
    )


def test_h2load() -> None:
    assert words("h2load", COUNTED) == "h2load --h1 -c 5 -t 2 -n 50 -H Connection: close https://127.0.0.1:4433/"
    request = replace(TIMED, host="::1", connections=3, keep_alive=True, groups="X25519", cipher="AES128-SHA")
    assert words("h2load", request) == ("h2load --h1 -c 3 -t 1 -D 5 --ciphers=AES128-SHA --groups=X25519 https://[::1]:4433/")
    assert "--tls13-ciphers=TLS_AES_128_CCM_SHA256" in words("h2load", replace(COUNTED, cipher="TLS_AES_128_CCM_SHA256"))
    assert words("h2load", replace(COUNTED, reuse=False, requests=5)).startswith("h2load --h1 -c 5 -t 2 -n 5 ")


def test_ab() -> None:
    request = LoadRequest(port=4433, requests=50, connections=5, version="TLSv1.2", cipher="AES128-SHA", certificate="both.pem")
    assert words("ab", request) == "ab -q -l -c 5 -n 50 -f TLS1.2 -Z AES128-SHA -E both.pem https://127.0.0.1:4433/"
    assert words("ab", replace(TIMED, keep_alive=True)) == "ab -q -l -c 1 -k -t 5 -n 1000000 https://127.0.0.1:4433/"


def test_wrk() -> None:
    request = replace(TIMED, connections=8, threads=2, keep_alive=True)
    assert words("wrk", request) == "wrk -t 2 -c 8 -d 5s --latency https://127.0.0.1:4433/"
    closing = TOOLS["wrk"].command(replace(request, keep_alive=False, reuse=True))
    assert closes(closing)
    assert not closes(TOOLS["wrk"].command(request))


@pytest.mark.parametrize(
    ("tool", "request_"),
    [
        ("s_time", replace(TIMED, requests=5)),
        ("s_time", LoadRequest(port=1, requests=5)),
        ("s_time", replace(TIMED, connections=2)),
        ("s_time", replace(TIMED, threads=2)),
        ("s_time", replace(TIMED, keep_alive=True)),
        ("s_time", replace(TIMED, groups="X25519")),
        ("s_time", replace(TIMED, version="TLSv1.1")),
        ("h2load", LoadRequest(port=1)),
        ("h2load", replace(TIMED, requests=5)),
        ("h2load", TIMED),
        ("h2load", replace(COUNTED, reuse=False)),
        ("h2load", replace(COUNTED, certificate="c.pem")),
        ("h2load", replace(COUNTED, ca="ca.pem")),
        ("h2load", replace(COUNTED, version="TLSv1.2")),
        ("ab", LoadRequest(port=1)),
        ("ab", COUNTED),
        ("ab", replace(TIMED, threads=2)),
        ("ab", replace(TIMED, ca="ca.pem")),
        ("ab", replace(TIMED, groups="X25519")),
        ("ab", replace(TIMED, cipher="TLS_AES_128_GCM_SHA256")),
        ("ab", replace(TIMED, certificate="c.pem", key="k.pem")),
        ("ab", replace(TIMED, version="SSLv3")),
        ("wrk", COUNTED),
        ("wrk", TIMED),
        ("wrk", replace(TIMED, reuse=True, threads=2)),
        ("wrk", replace(TIMED, reuse=True, version="TLSv1.2")),
        ("wrk", replace(TIMED, reuse=True, ca="ca.pem")),
    ],
)
def test_what_a_tool_cannot_do_is_said(tool: str, request_: LoadRequest) -> None:
    with pytest.raises(LoadError, match=rf"{tool}|TLSv|SSLv") as caught:
        TOOLS[tool].command(request_)
    assert str(caught.value).count(".") >= 1
