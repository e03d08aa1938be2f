# SPDX-License-Identifier: Apache-2.0
"""The request to a load generator and its result, in terms that all four share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.model.client import ClientReport, ConnectionBounds, Figure

__all__ = ["ClientReport", "ConnectionBounds", "Figure", "LoadError", "LoadRequest", "closes"]


class LoadError(SsllatencyError):
    """A load generator can't do what was requested, couldn't be run, or printed something unexpected."""


@dataclass(frozen=True)
class LoadRequest:
    """A task for a load generator; each tool's command() raises LoadError for what that tool can't.

    Exactly one of `seconds` and `requests` is given. `connections` run at a time, on `threads`. `keep_alive`: a connection
    carries many requests, else each its own. `reuse`: a connection resumes the session of one before. `version` is "TLSv1.2" or
    "TLSv1.3", `cipher` a cipher list of OpenSSL's (suites with TLSv1.3), `groups` a list of OpenSSL's; "" for the tool's own.
    `page` is a path, "" for none where the tool can do without. `ca` is a PEM file by which the server's certificate is
    verified, "" for no verification; `certificate` and `key` are the client's own PEM files. `program` is the executable in
    place of the one on the PATH.
    """

    port: int
    host: str = "127.0.0.1"
    page: str = "/"
    seconds: int | None = None
    requests: int | None = None
    connections: int = 1
    threads: int = 1
    keep_alive: bool = False
    reuse: bool = False
    version: str = ""
    cipher: str = ""
    groups: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    program: str = ""

    @property
    def url(self) -> str:
        """The URL for a tool that takes one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.page}"


def closes(command: Sequence[str]) -> bool:
    """Whether a tool's own arguments make each request close its connection."""
    return bool(re.search(r"(?i)connection: *close", " ".join(command)))
