# SPDX-License-Identifier: Apache-2.0
"""openssl s_time: one connection after the other, new or resumed, as long as its -time says.

Its rate divides by the client's own user CPU time, so it tells what a connection costs the client. Its real time is in whole
seconds: it goes on until the clock has passed the end, up to one second longer than it was told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.load.figures import ClientReport, ConnectionBounds, Figure, LoadError, LoadRequest
from ssllatency.load.tools.reading import WHOLE, figure, not_its_output, number

_NEW, _REUSED = "Collecting connection statistics", "Now timing with session id reuse"
_CPU = re.compile(rf"^({WHOLE}) connections in (\S+?)s; (\S+) connections/user sec(?:, bytes read ({WHOLE}))?", re.MULTILINE)
_REAL = re.compile(rf"^({WHOLE}) connections in ({WHOLE}) real seconds(?:, ({WHOLE}) bytes read per connection)?", re.MULTILINE)
_MARKS = re.compile(r"^[*rt23]+$", re.MULTILINE)  # one a connection; r: it resumed its session
_VERSIONS = {"TLSv1.2": "-tls1_2", "TLSv1.3": "-tls1_3"}


@dataclass(frozen=True)
class _Half:
    """The output about its new connections, or about its reused ones."""

    reused: bool
    text: str
    connections: int
    complete: bool
    marks: str

    @property
    def first(self) -> bool:
        """Whether it made the connection whose session the others offer."""
        return self.reused and (self.complete or "\nstarting\n" in self.text)

    @property
    def fetched(self) -> bool:
        """Whether it read a page."""
        match = _CPU.search(self.text) or _REAL.search(self.text)
        return bool(match and (match[match.re.groups] or "0") != "0")

    @property
    def resumed(self) -> int | None:
        """The number that resumed, where each connection has its mark."""
        return self.marks.count("r") if len(self.marks) == self.connections else None


def parse(text: str, command: Sequence[str] = ()) -> ClientReport:
    """Read what s_time printed on standard output, also where it was ended before its results."""
    halves = _halves(text)
    if not halves:
        raise not_its_output("openssl s_time", f'the line "{_NEW} …" or "{_REUSED}"', text)
    counted = sum(half.connections for half in halves)
    first = sum(half.first for half in halves)
    why = "s_time counts each" + (", but for the first of -reuse, which makes the session" if first else "")
    whole = all(half.complete for half in halves)
    return ClientReport(
        tool="s_time",
        command=tuple(command),
        figures=tuple(parsed for half in halves for parsed in _figures(half, len(halves) > 1)),
        facts={"sessions": " and ".join("reused" if half.reused else "new" for half in halves)},
        caveats=tuple(_caveats(halves, command, whole)),
        offers_sessions=any(half.reused for half in halves),
        connections=ConnectionBounds(counted + first, counted + first + (not whole), why),
    )


def _halves(text: str) -> list[_Half]:
    new, reused = text.find(_NEW), text.find(_REUSED)
    parts = [(False, text[new : reused if reused >= 0 else None])] if new >= 0 else []
    parts += [(True, text[reused:])] if reused >= 0 else []
    if not parts and (_CPU.search(text) or _REAL.search(text)):
        parts = [(False, text)]  # only the results were kept
    return [_half(reused, part) for reused, part in parts]


def _half(reused: bool, text: str) -> _Half:
    marks = "".join(_MARKS.findall(text))
    results = _REAL.search(text) or _CPU.search(text)
    return _Half(reused, text, int(results[1]) if results else len(marks), bool(results), marks)


def _figures(half: _Half, both: bool) -> list[Figure]:
    suffix = (" (reused)" if half.reused else " (new)") if both else ""
    page = ", the request and the whole response" if half.fetched else ""
    figures = list(figure(f"connections{suffix}", half.connections, "count", f"TCP connect, handshake{page}"))
    if cpu := _CPU.search(half.text):
        figures += figure(f"user CPU{suffix}", number(cpu[2]), "s", "the client's own user CPU time, in steps of 10 ms")
        rate = number(cpu[3]) if number(cpu[2]) else None
        figures += figure(f"connections per user second{suffix}", rate, "1/s", "connections by the client's user CPU time")
        figures += figure(f"bytes{suffix}", number(cpu[4] or ""), "bytes", "header and body")
    if real := _REAL.search(half.text):
        figures += figure(f"real{suffix}", number(real[2]), "s", "elapsed time in whole seconds, up to 1 s more than -time")
        figures += figure(f"bytes a connection{suffix}", number(real[3] or ""), "bytes", "header and body, rounded down")
    figures += figure(f"resumed{suffix}", half.resumed, "count", "connections that resumed their session")
    return figures


def _caveats(halves: list[_Half], command: Sequence[str], whole: bool) -> list[str]:
    caveats = [
        "s_time makes one connection at a time: its count is bounded by the latency of one, not by what the server can do.",
        'It divides by its own user CPU time: "per user second" says what a connection costs the client.',
    ]
    reused = next((half for half in halves if half.reused and half.connections), None)
    if reused and not reused.fetched and reused.resumed == 0 and not {"-www", "--www"} & set(command):
        caveats.append(
            "It never resumed: without -www it reads nothing, and in TLS 1.3 the session comes after the handshake; add -www /."
        )
    if not whole:
        caveats.append("s_time was ended before its results: its marks are counted.")
    return caveats


def command(request: LoadRequest) -> list[str]:
    """The command line. LoadError for what s_time can't: several connections at a time, a number of them, or groups."""
    host = f"[{request.host}]" if ":" in request.host else request.host
    if request.seconds is None or request.requests is not None:
        raise LoadError("s_time runs for a time, not for a number of requests: give seconds, or use h2load.")
    if request.connections != 1 or request.threads != 1:
        raise LoadError("s_time makes one connection at a time: use h2load, ab or wrk for several.")
    if request.keep_alive:
        raise LoadError("s_time makes a connection for each request: use h2load, ab or wrk for kept connections.")
    if request.groups:
        raise LoadError("s_time has no option for the groups: set them on the server, or use h2load.")
    if request.version not in ("", *_VERSIONS):
        raise LoadError(f"{request.version} is no version that s_time is asked for: TLSv1.2 or TLSv1.3.")
    words = [request.program or "openssl", "s_time", "-connect", f"{host}:{request.port}"]
    words += ["-www", request.page] if request.page else []
    words += ["-time", str(request.seconds), "-reuse" if request.reuse else "-new"]
    words += [_VERSIONS[request.version]] if request.version else []
    if request.cipher:
        words += ["-ciphersuites" if request.cipher.startswith("TLS_") else "-cipher", request.cipher]
    words += ["-CAfile", request.ca, "-verify", "9"] if request.ca else []
    words += ["-cert", request.certificate] if request.certificate else []
    return [*words, *(["-key", request.key] if request.key else [])]
