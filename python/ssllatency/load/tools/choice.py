# SPDX-License-Identifier: Apache-2.0
"""The four load generators by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ssllatency.data_class import dataclass
from ssllatency.errors import phrase
from ssllatency.load.account import Account
from ssllatency.load.credentials import without_credentials
from ssllatency.load.figures import ClientReport, Figure, LoadError, LoadRequest
from ssllatency.load.run import ToolOutput, run
from ssllatency.load.tools import ab, h2load, s_time, wrk
from ssllatency.load.tools.reading import figure

_VERSION_S = 10.0


class Parse(Protocol):
    """Reads what a tool printed on standard output; LoadError where that isn't its output."""

    def __call__(self, text: str, command: Sequence[str] = ()) -> ClientReport:
        """`command` is the tool's command line, which says more about its connections."""


class Command(Protocol):
    """Writes the command line of a request; LoadError where the tool can't do that."""

    def __call__(self, request: LoadRequest) -> list[str]:
        """The words of the command line."""


@dataclass(frozen=True)
class Tool:
    """A load generator: `program` is its executable, in Debian's `package`; `leading` are words before its own arguments, and
    `version` the arguments that make it print its version. `torn`: whether the last line counts even if it is cut off, as
    s_time's line of marks does."""

    program: str
    leading: tuple[str, ...]
    version: tuple[str, ...]
    package: str
    parse: Parse
    command: Command
    torn: bool = False


TOOLS: Mapping[str, Tool] = {
    "s_time": Tool("openssl", ("s_time",), ("version",), "openssl", s_time.parse, s_time.command, torn=True),
    "h2load": Tool("h2load", (), ("--version",), "nghttp2-client", h2load.parse, h2load.command),
    "ab": Tool("ab", (), ("-V",), "apache2-utils", ab.parse, ab.command),
    "wrk": Tool("wrk", (), ("-v",), "wrk", wrk.parse, wrk.command),
}


def version_of(tool: Tool, program: str = "", account: Account | None = None) -> str:
    """The version that the tool states ("3.0.22", "4.1.0-3+b2"), "" where it says none. LoadError where it isn't there."""
    try:
        output = run([program or tool.program, *tool.version], timeout_s=_VERSION_S, account=account)
    except LoadError as error:
        raise LoadError(f"{phrase(error)}: Debian's package {tool.package} has it.") from None
    match = re.search(r"\d+\.\d[\w.+~-]*", output.stdout + output.stderr, re.ASCII)
    return match[0][:64] if match else ""


def report_of(tool: Tool, output: ToolOutput, command: Sequence[str], version: str = "") -> ClientReport:
    """The tool's report of its run, and its rate of connections by our clock if their number is known exactly.

    Its command line is kept without credentials. The last line of a tool that was killed may be torn, and isn't read then.
    """
    printed = output.stdout
    report = tool.parse(printed if output.status == 0 or tool.torn else printed[: printed.rfind("\n") + 1], command)
    connections = report.connections
    rate: tuple[Figure, ...] = ()
    if connections and connections.least == connections.most and output.duration_s:
        includes = "connections by ssllatency's clock, from the tool's start to its end"
        rate = figure("connections a second", connections.least / output.duration_s, "1/s", includes)
    shown = without_credentials(next(name for name, candidate in TOOLS.items() if candidate is tool), command)
    return replace(report, version=version or report.version, command=shown, figures=(*report.figures, *rate))
