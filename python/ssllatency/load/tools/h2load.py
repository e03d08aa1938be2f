# SPDX-License-Identifier: Apache-2.0
"""h2load of nghttp2: many clients at a time, over HTTP/1.1 or HTTP/2.

A client that must connect again (`Connection: close`) resumes the session of its last connection, and its connect time is
overwritten by each new connection: the summary then holds the last connection of each client only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.load.figures import ClientReport, ConnectionBounds, Figure, LoadError, LoadRequest, closes
from ssllatency.load.tools.reading import WHOLE, figure, find, not_its_output, number, percent, seconds, size

_HTTP_1 = "http/1"  # later ones keep their connections, whatever a request says
_SPAWNED = re.compile(rf"^spawning thread #{WHOLE}: ({WHOLE}) (?:total client|concurrent client)", re.MULTILINE)
_OLD_TIME = re.compile(
    rf"^finished in ({WHOLE}) sec, ({WHOLE}) millisec and ({WHOLE}) microsec, (\S+) req/s(?:, (\S+) kbytes/s)?", re.MULTILINE
)
_TIME = re.compile(r"^finished in (\S+), (\S+) req/s(?:, (\S+)/s)?", re.MULTILINE)
_HEADING = re.compile(r"^ +min +.*$", re.MULTILINE)
_FACTS = {
    "protocol": r"^(?:TLS )?Protocol: *(.+)$",
    "cipher": r"^Cipher: *(.+)$",
    "key exchange": r"^Server Temp Key: *(.+)$",
    "application protocol": r"^Application protocol: *(.+)$",
}
_COUNTS = {
    "total": ("requests", "asked of it"),
    "done": ("done", "answered, whatever the status"),
    "succeeded": ("succeeded", "answered with status 2xx or 3xx"),
    "failed": ("failed", "other statuses, and all that got no answer"),
    "errored": ("errored", "of the failed, those that got no answer"),
    "timeout": ("timed out", "of the errored, those whose connection timed out"),
}
# By the row's name in the summary, old and new: ours, and what it includes.
_CONNECT = "TCP connect and TLS handshake"
_ROWS = {
    "time for request": ("request", "from the request's first byte sent to the response's last; no handshake"),
    "time for connect": ("connect", _CONNECT),
    "time to 1st byte": ("first byte", "TCP connect, TLS handshake, request, until the response's first byte"),
}
_ROWS |= {"request": _ROWS["time for request"], "connect": _ROWS["time for connect"], "ttfb": _ROWS["time to 1st byte"]}


def parse(text: str, command: Sequence[str] = ()) -> ClientReport:
    """Read what h2load printed on standard output, also where it was ended before its results."""
    if "starting benchmark" not in text and not find(r"^finished in ", text):
        raise not_its_output("h2load", 'the line "starting benchmark..." or "finished in …"', text)
    facts = {name: match[1].strip() for name, pattern in _FACTS.items() if (match := find(pattern, text))}
    ended = bool(find(r"^finished in ", text))
    close = closes(command) and facts.get("application protocol", _HTTP_1).startswith(_HTTP_1)
    rows, percentiles = _times(text)
    return ClientReport(
        tool="h2load",
        command=tuple(command),
        figures=(*_rates(text), *_counts(text), *_traffic(text), *rows),
        percentiles=percentiles,
        facts=facts,
        caveats=tuple(_caveats(text, ended, close)),
        connections=_connections(text, close) if ended else None,
        offers_sessions=close or None,
    )


def _rates(text: str) -> list[Figure]:
    if old := _OLD_TIME.search(text):
        took: float | None = int(old[1]) + int(old[2]) / 1e3 + int(old[3]) / 1e6
        rate, speed = number(old[4]), size(f"{old[5]}K") if old[5] else None
    elif new := _TIME.search(text):
        took, rate, speed = seconds(new[1].rstrip(",")), number(new[2]), size(new[3]) if new[3] else None
    else:
        return []
    return [
        *figure("elapsed", took, "s", "from the first connect to the last response, all handshakes and any warm-up"),
        *figure("requests a second", rate, "1/s", "requests done by the elapsed time, less the warm-up"),
        *figure("received a second", speed or None, "bytes/s", "decrypted bytes by the elapsed time"),
    ]


def _counts(text: str) -> list[Figure]:
    line = find(r"^requests: (.*)$", text)
    counts = {word: int(count) for count, word in re.findall(rf"\b({WHOLE}) ([a-z]+)", line[1])} if line else {}
    return [
        parsed for word, (name, includes) in _COUNTS.items() for parsed in figure(name, counts.get(word), "count", includes)
    ]


def _traffic(text: str) -> list[Figure]:
    line = find(r"^traffic: (.*)$", text)
    # "40.04KB (41000) total" or, before 1.10, "667500 bytes total".
    exact = re.findall(rf"\b({WHOLE})(?:\)| bytes) (total|headers|data)", line[1]) if line else []
    sizes = {word: int(number) for number, word in exact}
    total = sizes.get("total") or None  # 0 where a new connection a request makes it lose count
    return [
        *figure("bytes", total, "bytes", "decrypted, header and body"),
        *figure("body bytes", sizes.get("data"), "bytes", "bodies only"),
    ]


def _times(text: str) -> tuple[list[Figure], dict[str, dict[float, float]]]:
    """The summary's rows by its own headings: min, max, mean and sd, in newer ones median and percentiles as well."""
    heading = _HEADING.search(text)
    columns = heading[0].replace("+/- sd", "within").split() if heading else []
    figures: list[Figure] = []
    percentiles: dict[str, dict[float, float]] = {}
    for row, (name, includes) in _ROWS.items():
        match = find(rf"^(?i:{row}) *: *([0-9].*)$", text)
        values = {column: seconds(cell) for column, cell in zip(columns, match[1].split(), strict=False)} if match else {}
        if not any(values.get(column) for column in ("max", "mean")):
            continue  # all zero: nothing of that kind was measured
        for column in ("min", "mean", "sd", "median", "max"):
            figures += figure(f"{name}, {column}", values.get(column), "s", includes)
        shares = {percent(column[1:]): value for column, value in values.items() if column.startswith("p")}
        tail = {share: value for share, value in shares.items() if share is not None and value}
        if tail:
            percentiles[name] = tail
    return figures, percentiles


def _clients(text: str) -> int:
    return sum(int(number) for number in _SPAWNED.findall(text))


def _connections(text: str, close: bool) -> ConnectionBounds | None:
    """One connection a client, or one a request, or something in between where the server closes them."""
    clients, counts = _clients(text), {parsed.name: int(parsed.value) for parsed in _counts(text)}
    answered, errored = counts.get("done", 0), counts.get("errored", 0)
    if not clients:
        return None
    if "Timing-based" in text:
        least = min(answered, 1) if errored or answered < clients else clients
        return ConnectionBounds(least, None, "one a client or one a request, and those of the warm-up aren't counted")
    if close:
        return ConnectionBounds(answered, answered + errored, "one a request, as each says Connection: close")
    least = 0 if errored else min(clients, answered)
    return ConnectionBounds(least, answered + clients + errored, "one a client, and more where the server closes them")


def _caveats(text: str, ended: bool, close: bool) -> list[str]:
    if not ended:
        return ["h2load was ended before its results: it prints none then."]
    caveats = ["The request time begins when the connection stands; the handshake is in connect and first byte only."]
    if close:
        caveats.append("Each request made a new connection: connect and first byte are of the last one of each client only.")
    if "Timing-based" in text and find(r"^time for connect: +0us +0us +0us", text):
        caveats.append("Connects lay in the warm-up, before h2load began to measure: their times aren't known.")
    return caveats


def command(request: LoadRequest) -> list[str]:
    """The command line. LoadError for what h2load can't: verifying, a client certificate, the version; many new sessions."""
    if (request.seconds is None) == (request.requests is None):
        raise LoadError("h2load needs either seconds or requests.")
    if request.certificate or request.key:
        raise LoadError("h2load has no client certificate: use s_time or ab.")
    if request.ca:
        raise LoadError("h2load doesn't verify the server's certificate: use s_time.")
    if request.version:
        raise LoadError("h2load has no option for the TLS version: set it on the server, or use s_time or ab.")
    if not request.keep_alive and not request.reuse and request.requests != request.connections:
        raise LoadError(
            "h2load resumes when a client connects again: ask for as many requests as connections, or use s_time or ab."
        )
    words = [request.program or "h2load", "--h1", "-c", str(request.connections), "-t", str(request.threads)]
    words += ["-n", str(request.requests)] if request.requests is not None else ["-D", str(request.seconds)]
    words += [] if request.keep_alive else ["-H", "Connection: close"]
    if request.cipher:
        words.append(f"--{'tls13-ciphers' if request.cipher.startswith('TLS_') else 'ciphers'}={request.cipher}")
    words += [f"--groups={request.groups}"] if request.groups else []
    return [*words, request.url]
