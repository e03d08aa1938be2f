# SPDX-License-Identifier: Apache-2.0
"""From a matrix to its cells: every combination of the levels, without those that are excluded, duplicate or impossible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from ssllatency.load.matrix.plan import (
    DEFAULT,
    NEED,
    NEW,
    NONE,
    NOT_APPLICABLE,
    REUSE,
    Cell,
    Factor,
    Matrix,
    Plan,
    ServerEntry,
    ServerKind,
)


def plan(matrix: Matrix) -> Plan:
    """The cells in the order of the file's levels, each once, and why others are left out."""
    cells: dict[tuple[str, ...], Cell] = {}
    dropped: dict[tuple[str, ...], str] = {}
    excluded = [{factor: frozenset(levels) for factor, levels in rule.items()} for rule in matrix.exclude]
    for cell in _combinations(matrix):
        if reason := _why_not(cell, matrix, excluded):
            dropped[cell.key] = reason
        else:
            cells.setdefault(cell.key, cell)
    return Plan(tuple(cells.values()), Counter(dropped.values()))


def _combinations(matrix: Matrix) -> Iterator[Cell]:
    for levels in product(*(matrix.factors[factor] for factor in Factor)):
        yield Cell(_collapsed(dict(zip(Factor, levels, strict=True))))


def _collapsed(levels: dict[Factor, str]) -> Mapping[Factor, str]:
    """Without the levels that make no difference: a key that isn't asked for, a group where the key is sent under RSA."""
    if levels[Factor.CLIENT_CERTIFICATE] == NONE:
        levels[Factor.CLIENT_KEY] = NOT_APPLICABLE
    if _sends_key_under_rsa(levels[Factor.CIPHER]):
        levels[Factor.GROUP] = NOT_APPLICABLE
    return levels


def _sends_key_under_rsa(cipher: str) -> bool:
    return cipher != DEFAULT and not cipher.startswith(("TLS_", "ECDHE-", "DHE-", "ADH-", "AECDH-"))


def _why_not(cell: Cell, matrix: Matrix, excluded: Sequence[Mapping[Factor, frozenset[str]]]) -> str:
    """Return why the cell isn't run, "" where it is."""
    if any(all(cell[factor] in levels for factor, levels in rule.items()) for rule in excluded):
        return "excluded by the file"
    server = matrix.servers[cell[Factor.SERVER]]
    return next((reason for rule in _RULES for reason in (rule(cell, server),) if reason), "")


def _version_of_cipher(cell: Cell, _server: ServerEntry) -> str:
    version, cipher = cell[Factor.VERSION], cell[Factor.CIPHER]
    if cipher == DEFAULT:
        return ""
    suite = cipher.startswith("TLS_")
    if suite and version == "TLSv1.2":
        return f"{cipher} is a suite of TLS 1.3 only"
    if not suite and version == "TLSv1.3":
        return f"{cipher} isn't a suite of TLS 1.3"
    if version == DEFAULT:
        return f"{cipher} needs a version to be named"
    return ""


def _cipher_of_key(cell: Cell, _server: ServerEntry) -> str:
    key, cipher = cell[Factor.KEY], cell[Factor.CIPHER]
    if cipher == DEFAULT or cipher.startswith("TLS_"):
        return ""
    elliptic = not key.startswith("RSA-")
    if elliptic and "ECDSA" not in cipher:
        return f"{cipher} needs an RSA key"
    return "" if elliptic or "ECDSA" not in cipher else f"{cipher} needs an ECDSA or Ed25519 key"


def _certificate(cell: Cell, _server: ServerEntry) -> str:
    demand, key = cell[Factor.CLIENT_CERTIFICATE], cell[Factor.CLIENT_KEY]
    if demand == NEED and key == NONE:
        return "a client without a key can't give the certificate that is needed"
    if cell[Factor.TOOL] == "h2load" and key not in (NONE, NOT_APPLICABLE):
        return 'h2load has no client certificate (with "want" its client_key can be "none")'
    return ""


def _tool(cell: Cell, _server: ServerEntry) -> str:
    fetches = cell[Factor.PAGE] != NONE
    if cell[Factor.TOOL] == "h2load":
        return "" if fetches else "h2load always fetches a page"
    if cell[Factor.RESUMPTION] == REUSE and not fetches and cell[Factor.VERSION] != "TLSv1.2":
        return "in TLS 1.3 s_time resumes only where it fetches a page: the session comes after the handshake"
    return ""


def _s_server(cell: Cell, server: ServerEntry) -> str:
    if server.kind is not ServerKind.OPENSSL:
        return ""
    if cell[Factor.TOOL] != "s_time":
        return "openssl s_server serves one connection at a time, and no pages that can be traced: s_time only"
    return "" if cell[Factor.PAGE] == NONE else 'openssl s_server serves no page by calls that can be traced: page "none" only'


def _running(cell: Cell, server: ServerEntry) -> str:
    """Return why a running server can't be used for the cell, as ssllatency doesn't change its settings; "" if it can."""
    if server.kind is not ServerKind.RUNNING:
        return ""
    for factor, level in ((Factor.KEY, server.key), (Factor.CLIENT_CERTIFICATE, server.client_certificate)):
        if cell[factor] != level:
            return f"{server.name} is a running server whose {factor} is {level}"
    if cell[Factor.TOOL] != "h2load":
        return ""
    if cell[Factor.VERSION] != DEFAULT:
        return f'h2load can\'t choose the version of {server.name}, a running server: version "default" only'
    if cell[Factor.RESUMPTION] == NEW:
        return f"h2load resumes when it connects again, and {server.name} is a running server: its sessions can't be turned off"
    return ""


_RULES: tuple[Callable[[Cell, ServerEntry], str], ...] = (
    _version_of_cipher,
    _cipher_of_key,
    _certificate,
    _tool,
    _s_server,
    _running,
)
