# SPDX-License-Identifier: Apache-2.0
"""ab, ApacheBench: HTTP/1.0 with a new connection for each request, or with -k kept ones. Times are in whole milliseconds.

It never resumes a session. It counts a request whose handshake failed as complete, and may leave connections behind that it
had begun when it had enough requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.load.figures import ClientReport, ConnectionBounds, Figure, LoadError, LoadRequest
from ssllatency.load.tools.reading import WHOLE, figure, find, milliseconds, not_its_output, number, percent

_VERSIONS = {"TLSv1.2": "TLS1.2", "TLSv1.3": "TLS1.3"}
_MANY = 1_000_000  # -t alone stops at 50,000 requests
_LINES = {
    "Concurrency Level": ("connections at a time", "count", "as asked for"),
    "Time taken for tests": ("elapsed", "s", "from the first connect to the last response, all handshakes"),
    "Complete requests": ("requests", "count", "all that ended, those whose handshake failed among them"),
    "Failed requests": ("failed", "count", "no connection, no answer, or one of another length than the first"),
    "Write errors": ("write errors", "count", "requests that couldn't be sent"),
    "Broken pipe errors": ("write errors", "count", "requests that couldn't be sent"),
    "Non-2xx responses": ("not 2xx", "count", "answers with another status, counted as complete"),
    "Keep-Alive requests": ("kept alive", "count", "answers after which the connection was kept"),
    "Total transferred": ("bytes", "bytes", "header and body"),
    "HTML transferred": ("body bytes", "bytes", "bodies only"),
    "Requests per second": ("requests a second", "1/s", "requests by the elapsed time, all handshakes included"),
}
_TIMES = {
    "Connect": ("connect", "TCP connect and TLS handshake, whole ms; 0 on a kept connection"),
    "Processing": ("processing", "from the request's first byte sent to the response's end, whole ms"),
    "Waiting": ("waiting", "from the request sent to the response's first byte, whole ms"),
    "Total": ("total", "connect and processing, whole ms"),
}


def parse(text: str, command: Sequence[str] = ()) -> ClientReport:
    """Read what ab printed on standard output, also where it was interrupted. LoadError where it isn't ab's, or is HTML
    (-w)."""
    if "<table" in text and "Complete requests" in text:
        raise LoadError("This is ab's output as HTML: leave its -w out.")
    if not find(r"^Complete requests:", text):
        if "This is ApacheBench" in text:
            return ClientReport("ab", _version(text), tuple(command), caveats=("ab ended before it had any results.",))
        raise not_its_output("ab", 'the line "Complete requests:"', text)
    read_nothing = _value("Total transferred", text) == 0
    return ClientReport(
        tool="ab",
        version=_version(text),
        command=tuple(command),
        figures=(*_plain(text), *_per_request(text), *(() if read_nothing else _times(text))),
        percentiles={"total": percentiles} if not read_nothing and (percentiles := _percentiles(text)) else {},
        facts=_facts(text),
        caveats=_caveats(text),
        connections=_connections(text),
        offers_sessions=False,
    )


def _version(text: str) -> str:
    match = find(r"^This is ApacheBench, Version (\S+)", text)
    return match[1] if match else ""


def _value(label: str, text: str) -> float | None:
    match = find(rf"^{label}: +(\S+)", text)
    return number(match[1]) if match else None


def _plain(text: str) -> list[Figure]:
    return [
        parsed
        for label, (name, unit, includes) in _LINES.items()
        for parsed in figure(name, _value(label, text), unit, includes)
    ]


def _per_request(text: str) -> list[Figure]:
    match = find(r"^Time per request: +(\S+) \[?ms\]? \(mean\)$", text)
    includes = "elapsed time by requests, times the connections at a time"
    return list(figure("time a request", milliseconds(match[1]) if match else None, "s", includes))


def _times(text: str) -> list[Figure]:
    """The table of connection times: with median and deviation, or with -S and in old versions min, avg and max."""
    heading = find(r"^Conn+ection Times \(ms\)\n +(min .*)$", text)
    columns = heading[1].replace("mean[+/-sd]", "mean sd").replace("avg", "mean").split() if heading else []
    figures: list[Figure] = []
    for row, (name, includes) in _TIMES.items():
        line = find(rf"^{row}: +([0-9].*)$", text)
        for column, cell in zip(columns, line[1].split() if line else (), strict=False):
            figures += figure(f"{name}, {column}", milliseconds(cell), "s", includes)
    return figures


def _percentiles(text: str) -> dict[float, float]:
    lines = re.findall(rf"^ +({WHOLE})% +({WHOLE})(?: \(.*\))?$", text, re.MULTILINE)
    return {share: int(time) / 1e3 for written, time in lines if (share := percent(written)) is not None}


def _facts(text: str) -> dict[str, str]:
    facts = {}
    if match := find(r"^SSL/TLS Protocol: +([^,\n]*),([^,\n]*)(?:,([0-9]+))?", text):
        facts = {"protocol": match[1], "cipher": match[2], **({"server key": f"{match[3]} bits"} if match[3] else {})}
    for name, label in (("key exchange", "Server Temp Key"), ("server", "Server Software")):
        if line := find(rf"^{label}: +(\S.*)$", text):
            facts[name] = line[1].strip()
    return facts


def _caveats(text: str) -> tuple[str, ...]:
    caveats = ["ab's percentiles are of connect and processing together, in whole milliseconds; it never resumes a session."]
    if (_value("Complete requests", text) or 0) > 0 and _value("Total transferred", text) == 0:
        caveats.append("ab read nothing at all: it counts requests as complete though their connection or handshake failed.")
    return tuple(caveats)


def _connections(text: str) -> ConnectionBounds | None:
    complete, level = (_value(label, text) for label in ("Complete requests", "Concurrency Level"))
    if complete is None or level is None:
        return None
    failed = int(_value("Failed requests", text) or 0)
    if _value("Total transferred", text) == 0:
        failed = int(complete)
    kept = int(_value("Keep-Alive requests", text) or 0)
    good = int(complete) - failed
    least = max(0, max(min(int(level), good), good - kept) if kept else good)
    most = int(complete) - kept + (2 * int(level) if kept else int(level))
    if most < least:
        return None  # more were kept than there were, or more at a time: its numbers contradict one another
    kept_why = "one for each answer that didn't keep its connection, and those still open" if kept else "one a request"
    return ConnectionBounds(least, most, f"{kept_why}, and those it had begun when it had enough")


def command(request: LoadRequest) -> list[str]:
    """The command line. LoadError for what ab can't: resuming, verifying, threads, groups, suites of TLS 1.3."""
    if (request.seconds is None) == (request.requests is None):
        raise LoadError("ab needs either seconds or requests.")
    if request.reuse:
        raise LoadError("ab never resumes a session: use s_time, h2load or wrk.")
    if request.ca:
        raise LoadError("ab doesn't verify the server's certificate: use s_time.")
    if request.threads != 1:
        raise LoadError("ab has one thread: use h2load or wrk for several.")
    if request.groups:
        raise LoadError("ab has no option for the groups: set them on the server, or use h2load.")
    if request.cipher.startswith("TLS_"):
        raise LoadError("ab can't choose the suites of TLS 1.3: use s_time or h2load.")
    if request.key not in ("", request.certificate):
        raise LoadError("ab takes the client's certificate and key in one file: put both into it.")
    if request.version not in ("", *_VERSIONS):
        raise LoadError(f"{request.version} is no version that ab is asked for: TLSv1.2 or TLSv1.3.")
    words = [request.program or "ab", "-q", "-l", "-c", str(request.connections), *(["-k"] if request.keep_alive else [])]
    words += ["-n", str(request.requests)] if request.requests is not None else ["-t", str(request.seconds), "-n", str(_MANY)]
    words += ["-f", _VERSIONS[request.version]] if request.version else []
    words += ["-Z", request.cipher] if request.cipher else []
    words += ["-E", request.certificate] if request.certificate else []
    return [*words, request.url]
