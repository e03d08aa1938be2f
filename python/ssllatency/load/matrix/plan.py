# SPDX-License-Identifier: Apache-2.0
"""A matrix of measurements as plain data: its factors, its servers, and the order of its runs."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from enum import StrEnum

from ssllatency.data_class import dataclass

DEFAULT, NONE, WANT, NEED = "default", "none", "want", "need"
NEW, REUSE = "new", "reuse"
NOT_APPLICABLE = "-"  # the level of a factor that makes no difference in a cell

KEYS = ("RSA-2048", "RSA-3072", "RSA-4096", "ECDSA-P-256", "ECDSA-P-384", "Ed25519")
VERSIONS = ("TLSv1.2", "TLSv1.3")
TOOLS = ("s_time", "h2load")

# What the library calls a group, by the name that sets it, where they differ in more than case.
_GROUP_NAMES = {
    "p-256": "secp256r1", "prime256v1": "secp256r1", "p-384": "secp384r1", "p-521": "secp521r1",
}  # fmt: skip


class Factor(StrEnum):
    """The factors, in the order of the table's columns."""

    SERVER = "server"
    TOOL = "tool"
    KEY = "key"
    VERSION = "version"
    CIPHER = "cipher"
    GROUP = "group"
    CLIENT_CERTIFICATE = "client_certificate"
    CLIENT_KEY = "client_key"
    RESUMPTION = "resumption"
    PAGE = "page"


# What a factor has where the file doesn't vary it; the server's is every server of the file.
UNVARIED: Mapping[Factor, str] = {
    Factor.TOOL: "s_time",
    Factor.KEY: "RSA-2048",
    Factor.VERSION: "TLSv1.3",
    Factor.CIPHER: DEFAULT,
    Factor.GROUP: DEFAULT,
    Factor.CLIENT_CERTIFICATE: NONE,
    Factor.CLIENT_KEY: "ECDSA-P-256",
    Factor.RESUMPTION: NEW,
    Factor.PAGE: "/",
}


class ServerKind(StrEnum):
    """The kinds of servers: started by us, or already running."""

    NGINX = "nginx"
    OPENSSL = "openssl"
    RUNNING = "running"


@dataclass(frozen=True)
class ServerEntry:
    """One server of the file. NGINX: `workers`, lines for the `main` and `http` parts of its configuration; OPENSSL: more
    `options` of s_server; RUNNING: its `address` (HOST:PORT), `pid` where it can't be found by that, and as facts its `key` and
    `client_certificate`. `program` is the executable in place of the one on the PATH."""

    name: str
    kind: ServerKind = ServerKind.NGINX
    program: str = ""
    workers: int = 1
    main: tuple[str, ...] = ()
    http: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    address: str = ""
    pid: int | None = None
    key: str = ""
    client_certificate: str = NONE


@dataclass(frozen=True)
class Cell:
    """One combination: a level for each factor."""

    levels: Mapping[Factor, str]

    def __getitem__(self, factor: Factor) -> str:
        return self.levels[factor]

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[str, ...]:
        """The levels in the factors' order."""
        return tuple(self.levels[factor] for factor in Factor)

    def __str__(self) -> str:
        return ", ".join(level for level in self.key if level not in (DEFAULT, NOT_APPLICABLE))


@dataclass(frozen=True)
class Matrix:
    """All that a file says. `factors` holds the levels of every factor; each of `exclude` leaves out the cells whose levels are
    among its own. A run of s_time takes `seconds`, one of h2load makes `connections` from as many `clients` at a time.

    Before the `repeats` that are kept, `warm_up` rounds are run and thrown away."""

    servers: Mapping[str, ServerEntry]
    factors: Mapping[Factor, tuple[str, ...]]
    exclude: tuple[Mapping[Factor, tuple[str, ...]], ...] = ()
    seconds: int = 0
    connections: int = 0
    clients: int = 10
    repeats: int = 5
    warm_up: int = 1
    seed: int = 1

    @property
    def identity(self) -> str:
        """An identifier of all settings that affect a run's numbers; the number of repeats and warm-ups may change in
        between."""
        settings = {**asdict(self), "repeats": None, "warm_up": None}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class MatrixRun:
    """One cell, run once; `repeat` counts from 1, those of a warm-up have none."""

    cell: Cell
    repeat: int | None


def chosen(level: str) -> str:
    """The level as a setting, "" where there is nothing to set."""
    return "" if level in (DEFAULT, NOT_APPLICABLE) else level


def group_name(group: str) -> str:
    """The canonical name of a group, in small letters, by any of the names that select it."""
    name = group.lower()
    return _GROUP_NAMES.get(name, name)


@dataclass(frozen=True)
class Plan:
    """The cells that can be run, and why others can't: each reason with their number."""

    cells: tuple[Cell, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


def order(
    cells: Sequence[Cell], matrix: Matrix, done: frozenset[tuple[tuple[str, ...], int]] = frozenset()
) -> tuple[MatrixRun, ...]:
    """The runs that are left, in order: rounds in which each cell comes once, each shuffled anew from the seed.

    A drift of the machine so meets all cells alike. `done` are cells' keys with their repeats; a cell that has none left isn't
    warmed up. The order of a round depends on nothing but the seed and the cells, so that an interrupted matrix goes on as it
    would have.
    """
    rounds = [(repeat, _shuffled(cells, matrix.seed, repeat)) for repeat in range(1, matrix.repeats + 1)]
    left = [MatrixRun(cell, repeat) for repeat, shuffled in rounds for cell in shuffled if (cell.key, repeat) not in done]
    cold = {run.cell.key for run in left}
    warm_ups = [_shuffled(cells, matrix.seed, -number) for number in range(matrix.warm_up)]
    return (*(MatrixRun(cell, None) for shuffled in warm_ups for cell in shuffled if cell.key in cold), *left)


def _shuffled(cells: Sequence[Cell], seed: int, number: int) -> list[Cell]:
    shuffled = list(cells)
    random.Random(f"{seed} {number}").shuffle(shuffled)
    return shuffled
