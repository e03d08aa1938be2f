# SPDX-License-Identifier: Apache-2.0
"""By which names we may be asked. Where we only listen on this machine's own addresses, a page in a browser here must not read
us by a name of its own that points to them (DNS rebinding). Elsewhere scrapers know us by names that we don't."""

from __future__ import annotations

import ipaddress
import re

_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?", re.ASCII)
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def may_ask(host: str, listening: str) -> bool:
    """Whether a request with this Host header, "" for none, is answered at an address that we listen at."""
    if not host:
        return True
    match = _HOST.fullmatch(host)
    if not match:
        return False
    return not _is_local(listening) or match[1].lower() in _LOCAL or _is_local(match[1].strip("[]"))


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
