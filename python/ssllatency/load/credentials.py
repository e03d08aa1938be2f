# SPDX-License-Identifier: Apache-2.0
"""Command lines without credentials: reports quote them, and are mailed and attached to tickets."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"
# By tool, the options whose whole value is a credential: ab's -A and -P are user:password, and -C is a cookie.
_SECRET_OPTIONS: dict[str, tuple[str, ...]] = {
    "ab": ("-A", "-P", "-C"),
    "s_time": ("-pass", "-passin", "--pass", "--passin"),
}
_HEADER_OPTIONS = ("-H", "--header")
_TELLING = r"auth|cookie|token|secret|passw|api-?_?key|session|signature|credential"
_SECRET_HEADER = re.compile(rf"([^:]*(?:{_TELLING})[^:]*):.*", re.IGNORECASE | re.DOTALL)
_USER_OF_URL = re.compile(r"(?i)^(https?://)[^/?#]*@")
_SECRET_OF_QUERY = re.compile(rf"(?i)([?&;][^=&;#]*(?:{_TELLING}|key|sig)[^=&;#]*)=[^&;#]*")


def without_credentials(tool: str, command: Sequence[str]) -> tuple[str, ...]:
    """The command line of a tool, named as in TOOLS, with HIDDEN in place of passwords, cookies and the like."""
    shown: list[str] = []
    option = ""
    for word in command:
        shown.append(_hidden(tool, option, word))
        option = word
    return tuple(shown)


def _hidden(tool: str, option: str, word: str) -> str:
    """One word after another."""
    secret = _SECRET_OPTIONS.get(tool, ())
    if option in secret:
        return HIDDEN
    if option in _HEADER_OPTIONS:
        return _header(word)
    for name in _HEADER_OPTIONS:
        start = f"{name}=" if name.startswith("--") else name
        if word.startswith(start) and word != name:
            return start + _header(word[len(start) :])
    for name in secret:
        if re.fullmatch(r"-[A-Z]", name) and word.startswith(name) and word != name:
            return name + HIDDEN
    return _SECRET_OF_QUERY.sub(rf"\1={HIDDEN}", _USER_OF_URL.sub(rf"\1{HIDDEN}@", word))


def _header(text: str) -> str:
    return _SECRET_HEADER.sub(rf"\1: {HIDDEN}", text)
