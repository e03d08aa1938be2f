# SPDX-License-Identifier: Apache-2.0
"""Facts in a tool's own arguments: where it connects to, and how long it will run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.load.figures import LoadError

_HTTPS = 443
_S_TIME_ADDRESS = "localhost:4433"
_UNITS_S = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# The options that set a duration, and what it is without them, None where the tool then runs for a number of requests.
_DURATIONS: dict[str, tuple[tuple[str, ...], float | None]] = {
    "s_time": (("-time",), 30.0),
    "h2load": (("-D", "--duration"), None),
    "ab": (("-t",), None),
    "wrk": (("-d", "--duration"), 10.0),
}


@dataclass(frozen=True)
class Endpoint:
    """A host, by name or address, and a port."""

    host: str
    port: int


def endpoint(tool: str, arguments: Sequence[str]) -> Endpoint:
    """The endpoint that the tool connects to. LoadError where its arguments don't say."""
    if tool == "s_time":
        address = _option(("-connect",), arguments) or _S_TIME_ADDRESS
    else:
        url = _url(arguments)
        if not url:
            raise LoadError(f"{tool}'s arguments contain no https:// URL: write them after {tool}, in its own syntax.", 2)
        address = (tool == "h2load" and _option(("--connect-to",), arguments)) or _authority(url)
    return endpoint_of(address)


def refuse_plain(tool: str, arguments: Sequence[str]) -> None:
    """Raises LoadError where the tool would use HTTP without TLS."""
    if tool != "s_time" and _url(arguments).lower().startswith("http:"):
        raise LoadError(f"{tool} would speak HTTP without TLS: give it an https:// URL.", 2)


def _url(arguments: Sequence[str]) -> str:
    return next((word for word in reversed(arguments) if re.match(r"(?i)https?://", word)), "")


def _authority(url: str) -> str:
    return re.split("[/?#]", url.partition("//")[2])[0].rpartition("@")[2]


def endpoint_of(address: str) -> Endpoint:
    """A host and a port as they are written; LoadError where they aren't."""
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]*))(?::(\d{1,5}))?", address)
    if not match or not 0 < int(match[3] or _HTTPS) < 1 << 16:
        raise LoadError(f"{address} isn't HOST:PORT.", 2)
    return Endpoint(match[1] or match[2] or "localhost", int(match[3] or _HTTPS))


def expected_s(tool: str, arguments: Sequence[str]) -> float | None:
    """About how long the tool will run; None where it runs for a number of requests, or that isn't known."""
    options, default = _DURATIONS[tool]
    written = _option(options, arguments)
    if not written:
        duration = default
    else:
        match = re.fullmatch(r"(\d{1,9})([a-z]{0,2})", written)
        duration = float(match[1]) * _UNITS_S[match[2]] if match and match[2] in _UNITS_S else None
    if duration is None:
        return None
    if tool == "s_time" and not {"-new", "-reuse"} & set(arguments):
        return 2 * duration  # first new connections, then reused ones
    warm_up = _option(("--warm-up-time",), arguments) if tool == "h2load" else ""
    return duration + float(warm_up if warm_up.isdecimal() else 0)


def _option(names: Sequence[str], arguments: Sequence[str]) -> str:
    """The value of an option, the last where it is given several times; "" where it isn't."""
    value = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        for name in names:
            if word in (name, f"-{name}"):
                value = following
            elif name.startswith("--") and word.startswith(f"{name}="):
                value = word[len(name) + 1 :]
            elif re.fullmatch(r"-[A-Za-z]", name) and word.startswith(name) and not word.startswith("--"):
                value = word[len(name) :]
    return value
