# SPDX-License-Identifier: Apache-2.0
"""wrk, and wrk2 with its constant rate: many kept connections on several threads.

The latency begins at the request, when the connection stands: it leaves the handshake out, even where each request has a
connection of its own. A connection keeps its SSL object when it is made anew, and so resumes where the server lets it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.load.figures import ClientReport, ConnectionBounds, Figure, LoadError, LoadRequest, closes
from ssllatency.load.tools.reading import WHOLE, figure, find, not_its_output, number, percent, seconds, size

_DONE = re.compile(rf"^ *({WHOLE}) requests in (\S+), (\S+) read", re.MULTILINE)
_SETUP = re.compile(rf"^ *({WHOLE}) threads and ({WHOLE}) connections", re.MULTILINE)
_ROW = r" +(\S+) +(\S+) +(\S+) +(\S+)%"
_ERRORS = re.compile(rf"^ *Socket errors: connect ({WHOLE}), read ({WHOLE}), write ({WHOLE}), timeout ({WHOLE})", re.MULTILINE)
_BLOCK = re.compile(r"^ *Latency Distribution(?: \(HdrHistogram - (Recorded|Uncorrected) Latency.*)?$", re.MULTILINE)
_PERCENTILE = re.compile(r"^ *([0-9.]+)% +([0-9.]+(?:us|ms|s|m|h))$", re.MULTILINE)
_LATENCY = "from the request's first byte sent to the response's end; no connect, no handshake"
_PLANNED = "from when the request was due, waiting for connections included, to the response's end"


def parse(text: str, command: Sequence[str] = ()) -> ClientReport:
    """Read what wrk or wrk2 printed on standard output."""
    totals = _DONE.search(text)
    if not totals:
        if find(r"^Running .* test @", text):
            return ClientReport("wrk", command=tuple(command), caveats=("wrk was ended before its results.",))
        raise not_its_output("wrk", 'the line "… requests in …, … read"', text)
    planned = "HdrHistogram" in text or "Thread calibration" in text
    requests = int(totals[1])
    return ClientReport(
        tool="wrk",
        command=tuple(command),
        figures=(*_totals(totals, text), *(_times(text, planned) if requests else []), *_errors(text)),
        percentiles=_percentiles(text) if requests else {},
        facts={"variant": "wrk2" if planned else "wrk"},
        caveats=_caveats(planned),
        connections=_connections(requests, text, command),
        offers_sessions=closes(command) or None,
    )


def _totals(totals: re.Match[str], text: str) -> list[Figure]:
    rate, speed = find(r"^Requests/sec: +(\S+)", text), find(r"^Transfer/sec: +(\S+)", text)
    return [
        *figure("requests", int(totals[1]), "count", "answered, whatever the status"),
        *figure("elapsed", seconds(totals[2]), "s", "all connects and handshakes included"),
        *figure(
            "requests a second", number(rate[1]) if rate else None, "1/s", "requests by the elapsed time, handshakes included"
        ),
        *figure("bytes", size(totals[3]), "bytes", "header and body, as rounded by wrk"),
        *figure("received a second", size(speed[1]) if speed else None, "bytes/s", "bytes by the elapsed time"),
    ]


def _times(text: str, planned: bool) -> list[Figure]:
    figures: list[Figure] = []
    if row := find(rf"^ +Latency{_ROW}", text):
        for column, cell in zip(("mean", "sd", "max"), row.groups(), strict=False):
            figures += figure(f"latency, {column}", seconds(cell), "s", _PLANNED if planned else _LATENCY)
    if row := find(rf"^ +Req/Sec{_ROW}", text):
        figures += figure("requests a second a thread", number(row[1]), "1/s", "mean of samples, each of one thread")
    return figures


def _errors(text: str) -> list[Figure]:
    match = _ERRORS.search(text)
    counts = match.groups() if match else ()
    words = ("refused, reset, or a failed handshake", "ended or reset while a response was awaited", "reset while sending",
             "responses that took longer than --timeout")  # fmt: skip
    names = ("connect errors", "read errors", "write errors", "timeouts")
    errors = [
        parsed
        for name, count, includes in zip(names, counts, words, strict=False)
        for parsed in figure(name, int(count), "count", includes)
    ]
    status = find(rf"^ *Non-2xx or 3xx responses: ({WHOLE})", text)
    return [*errors, *figure("not 2xx or 3xx", int(status[1]) if status else None, "count", "answers with another status")]


def _percentiles(text: str) -> dict[str, dict[float, float]]:
    """By block: wrk's one, wrk2's recorded and with -U its uncorrected one."""
    starts = list(_BLOCK.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    percentiles = {}
    for start, end in zip(starts, ends, strict=False):
        part = text[start.end() : end]
        times = {percent(share): seconds(time) for share, time in _PERCENTILE.findall(part)}
        values = {share: value for share, value in times.items() if share is not None and value is not None}
        if values:
            percentiles["uncorrected latency" if start[1] == "Uncorrected" else "latency"] = values
    return percentiles


def _caveats(planned: bool) -> tuple[str, ...]:
    uncorrected = " (wrk2's -U shows it from the request)" if planned else ""
    return (
        f"The latency leaves the handshake out{uncorrected}: a slow handshake shows in the requests a second only, where each"
        " request has its own connection.",
    )


def _connections(requests: int, text: str, command: Sequence[str]) -> ConnectionBounds | None:
    setup = _SETUP.search(text)
    if not setup or not int(setup[1]):
        return None
    opened = int(setup[2]) // int(setup[1]) * int(setup[1])
    errors = _ERRORS.search(text)
    broken = int(errors[1]) + int(errors[2]) + int(errors[3]) if errors else 0
    if closes(command):
        return ConnectionBounds(requests, requests + opened + broken, "one a request, and those that were open at the end")
    least = min(requests, 1) if broken or requests < opened else opened
    return ConnectionBounds(
        least, opened + requests + broken, "one kept open by each of its connections, and more where the server closes"
    )


def command(request: LoadRequest) -> list[str]:
    """The command line. LoadError for all that wrk has no option for."""
    if request.seconds is None or request.requests is not None:
        raise LoadError("wrk runs for a time, not for a number of requests: give seconds, or use h2load or ab.")
    if request.version or request.cipher or request.groups:
        raise LoadError("wrk has no option for version, cipher or groups: set them on the server, or use s_time or h2load.")
    if request.certificate or request.key or request.ca:
        raise LoadError("wrk has no option for certificates: use s_time or ab.")
    if request.connections < request.threads:
        raise LoadError("wrk needs at least as many connections as threads.")
    if not request.keep_alive and not request.reuse:
        raise LoadError("wrk resumes when it connects again: use s_time or ab for new sessions.")
    words = [request.program or "wrk", "-t", str(request.threads), "-c", str(request.connections), "-d", f"{request.seconds}s"]
    return [*words, "--latency", *([] if request.keep_alive else ["-H", "Connection: close"]), request.url]
