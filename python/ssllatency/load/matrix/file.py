# SPDX-License-Identifier: Apache-2.0
"""Reads a matrix from its TOML file. An error becomes one sentence that names the place in the file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ssllatency.load.arguments import endpoint_of
from ssllatency.load.figures import LoadError
from ssllatency.load.matrix.plan import (
    DEFAULT,
    KEYS,
    NEED,
    NEW,
    NONE,
    NOT_APPLICABLE,
    REUSE,
    TOOLS,
    UNVARIED,
    VERSIONS,
    WANT,
    Factor,
    Matrix,
    ServerEntry,
    ServerKind,
)

_MOST_CELLS, _MOST_RULES, _MOST_BYTES, _LARGEST_PAGE = 10_000, 256, 1 << 20, 1 << 24
_SETTINGS = {
    "seconds": (1, 3600),
    "connections": (1, 10_000_000),
    "clients": (1, 1000),
    "repeats": (1, 1000),
    "warm_up": (0, 100),
    "seed": (0, 1 << 32),
}
# The levels of the factors whose levels can be listed; of the others, what they look like and how that is said.
_LEVELS: Mapping[Factor, tuple[str, ...]] = {
    Factor.TOOL: TOOLS,
    Factor.KEY: KEYS,
    Factor.VERSION: (*VERSIONS, DEFAULT),
    Factor.CLIENT_CERTIFICATE: (NONE, WANT, NEED),
    Factor.CLIENT_KEY: (NONE, *KEYS),
    Factor.RESUMPTION: (NEW, REUSE),
}
_PATTERNS: Mapping[Factor, tuple[str, str]] = {
    Factor.CIPHER: (r"[A-Z][A-Za-z0-9_-]*|default", 'one name of OpenSSL\'s, or "default"'),
    Factor.GROUP: (r"[A-Za-z][A-Za-z0-9_-]*", 'one name of OpenSSL\'s like "X25519", or "default"'),
    Factor.PAGE: (r"/[!-~]*|none", 'a path that begins with /, or "none"'),
}
# By kind of server: the members that its table may have beside "kind".
_MEMBERS: Mapping[ServerKind, tuple[str, ...]] = {
    ServerKind.NGINX: ("program", "workers", "main", "http"),
    ServerKind.OPENSSL: ("program", "options"),
    ServerKind.RUNNING: ("address", "pid", "key", "client_certificate"),
}


def read(path: str) -> Matrix:
    """The matrix of a file; LoadError where it isn't one."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise LoadError(f"{path} can't be read: {error.strerror}.") from None
    if len(data) > _MOST_BYTES:
        raise LoadError(f"{path} is larger than 1 MiB, too large for a matrix file.")
    try:
        return parse(data.decode())
    except UnicodeDecodeError:
        raise LoadError(f"{path} isn't TOML: it isn't text in UTF-8.") from None
    except LoadError as error:
        raise LoadError(f"{path}: {error}") from None


def parse(text: str) -> Matrix:
    """The matrix of a file's text; LoadError where it isn't one."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise LoadError("it isn't the TOML of a matrix: its values are nested too deep.") from None
    except ValueError as error:  # of tomllib, or of a number too long for Python
        raise LoadError(f"it isn't TOML: {error}.") from None
    _refuse_unknown(document, (*_SETTINGS, "servers", "factors", "exclude"), "")
    servers = {name: _server(entry, name) for name, entry in _table(document.get("servers", {}), "servers").items()}
    if not servers:
        raise LoadError("it names no server: add a table like [servers.nginx].")
    factors = _factors(_table(document.get("factors", {}), "factors"), servers)
    settings = {name: _number(document[name], name, *_SETTINGS[name]) for name in _SETTINGS if name in document}
    for tool, setting in (("s_time", "seconds"), ("h2load", "connections")):
        if tool in factors[Factor.TOOL] and setting not in settings:
            raise LoadError(f"{setting} is missing: how many a run of {tool} takes.")
    return Matrix(servers, factors, _exclude(document.get("exclude", []), servers), **settings)


def _refuse_unknown(table: Mapping[str, object], names: Collection[str], path: str) -> None:
    for name in table:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}."
            raise LoadError(f"{path}{name} isn't known: {hint}")


def _table(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise LoadError(f"{path} must be a table.")
    return value


def _number(value: object, path: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise LoadError(f"{path} must be a whole number from {least} to {most}.")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise LoadError(f"{path} must be one line of text.")
    return value


def _texts(value: object, path: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise LoadError(f"{path} must be a list of strings.")
    return tuple(_text(element, f"{path}[{number}]") for number, element in enumerate(value))


def _server(value: object, name: str) -> ServerEntry:
    path = f"servers.{name}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise LoadError(f"{path} must be named with letters, digits, dots, - and _.")
    table = _table(value, path)
    kind = _one_of(table.get("kind", ServerKind.NGINX), tuple(ServerKind), f"{path}.kind")
    _refuse_unknown(table, ("kind", *_MEMBERS[ServerKind(kind)]), f"{path}.")
    entry = ServerEntry(
        name,
        ServerKind(kind),
        program=_text(table["program"], f"{path}.program") if "program" in table else "",
        workers=_number(table.get("workers", 1), f"{path}.workers", 1, 1024),
        main=_texts(table.get("main", []), f"{path}.main"),
        http=_texts(table.get("http", []), f"{path}.http"),
        options=_texts(table.get("options", []), f"{path}.options"),
        address=_text(table["address"], f"{path}.address") if "address" in table else "",
        pid=_number(table["pid"], f"{path}.pid", 1, (1 << 22) - 1) if "pid" in table else None,
        key=_one_of(table["key"], KEYS, f"{path}.key") if "key" in table else "",
        client_certificate=_one_of(
            table.get("client_certificate", NONE), _LEVELS[Factor.CLIENT_CERTIFICATE], f"{path}.client_certificate"
        ),
    )
    if entry.kind is ServerKind.RUNNING:
        _complete(entry, path)
    return entry


def _complete(entry: ServerEntry, path: str) -> None:
    """LoadError where a running server lacks what must be known of it."""
    for member, value in (("address", entry.address), ("key", entry.key)):
        if not value:
            raise LoadError(f"{path}.{member} is missing: a running server needs it.")
    try:
        endpoint_of(entry.address)
    except LoadError as error:
        raise LoadError(f"{path}.address: {error}") from None


def _factors(table: Mapping[str, object], servers: Mapping[str, ServerEntry]) -> Mapping[Factor, tuple[str, ...]]:
    """The levels of every factor, those that the file doesn't vary included."""
    _refuse_unknown(table, tuple(Factor), "factors.")
    unvaried = {**UNVARIED, Factor.PAGE: NONE if all(server.kind is ServerKind.OPENSSL for server in servers.values()) else "/"}
    factors: dict[Factor, tuple[str, ...]] = {}
    for factor in Factor:
        if factor in table:
            factors[factor] = _levels(table[factor], factor, servers)
        else:
            factors[factor] = tuple(servers) if factor is Factor.SERVER else (unvaried[factor],)
    cells = 1
    for levels in factors.values():
        cells *= len(levels)
    if cells > _MOST_CELLS:
        raise LoadError(f"factors make {cells} cells: at most {_MOST_CELLS} can be run.")
    return factors


def _levels(value: object, factor: Factor, servers: Mapping[str, ServerEntry], path: str = "factors") -> tuple[str, ...]:
    """One level or a list of them, each once."""
    path = f"{path}.{factor}"
    values = value if isinstance(value, list) else [value]
    if not values:
        raise LoadError(f"{path} must have at least one level.")
    if len(values) > _MOST_CELLS:
        raise LoadError(f"{path} has {len(values)} levels: at most {_MOST_CELLS} cells can be run.")
    levels = [_level(level, factor, servers, path) for level in values]
    level, times = Counter(levels).most_common(1)[0]
    if times > 1:
        raise LoadError(f"{path} has {level} more than once.")
    return tuple(levels)


def _level(value: object, factor: Factor, servers: Mapping[str, ServerEntry], path: str) -> str:
    if factor is Factor.SERVER:
        return _one_of(value, tuple(servers), path)
    if factor in _LEVELS:
        return _one_of(value, _LEVELS[factor], path)
    pattern, how = _PATTERNS[factor]
    level = _text(value, path)
    if not re.fullmatch(pattern, level):
        raise LoadError(f"{path}: {level} isn't {how}.")
    if factor is Factor.PAGE and any(entry.kind is ServerKind.NGINX for entry in servers.values()):
        _page_of_ours(level, path)
    return level


def _page_of_ours(page: str, path: str) -> None:
    if page not in ("/", NONE) and not (re.fullmatch(r"/\d{1,8}", page) and 0 < int(page[1:]) <= _LARGEST_PAGE):
        raise LoadError(
            f'{path}: {page} isn\'t a page of an nginx that is started for the matrix: "/N" has N bytes, 1 to {_LARGEST_PAGE};'
            ' "/" has 64.'
        )


def _one_of(value: object, names: Collection[str], path: str) -> str:
    level = _text(value, path)
    if level not in names:
        close = difflib.get_close_matches(level, names, 1)
        raise LoadError(f"{path}: {level} isn't known: {f'did you mean {close[0]}?' if close else f'use {_or(names)}.'}")
    return level


def _or(names: Collection[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _exclude(tables: object, servers: Mapping[str, ServerEntry]) -> tuple[Mapping[Factor, tuple[str, ...]], ...]:
    if not isinstance(tables, list):
        raise LoadError("exclude must be a list of tables: write [[exclude]].")
    if len(tables) > _MOST_RULES:
        raise LoadError(f"exclude has {len(tables)} tables: at most {_MOST_RULES} are allowed.")
    rules = []
    for number, value in enumerate(tables):
        path = f"exclude[{number}]"
        table = _table(value, path)
        _refuse_unknown(table, tuple(Factor), f"{path}.")
        if not table:
            raise LoadError(f"{path} names no factor: it would leave out every cell.")
        rules.append({Factor(name): _excluded(levels, Factor(name), servers, path) for name, levels in table.items()})
    return tuple(rules)


def _excluded(value: object, factor: Factor, servers: Mapping[str, ServerEntry], path: str) -> tuple[str, ...]:
    """Read it as the levels of a factor, or the one that stands where it makes no difference."""
    return (NOT_APPLICABLE,) if value == NOT_APPLICABLE else _levels(value, factor, servers, path)
