# SPDX-License-Identifier: Apache-2.0
"""The table of a matrix's runs as CSV: a row for each, appended as it ends, so that an interrupted matrix can go on."""

from __future__ import annotations

import csv
import fcntl
import io
import os
import re
import stat
from collections.abc import Mapping, Sequence

from ssllatency.data_class import dataclass
from ssllatency.load.figures import LoadError
from ssllatency.load.matrix.plan import Cell, Factor, Matrix
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.client import ClientReport
from ssllatency.model.handshakes import PHASES, WAITS, WINDOWED, YES, Ending, Group, Handshakes, Label, Part
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.timed import quantile_ns

_PARTS = (Part.WALL, Part.CALLS, *PHASES, *WAITS)
_PERCENTILES = {"wall_p50_us": 0.5, "wall_p90_us": 0.9, "wall_p99_us": 0.99}
RATE, MATRIX, REPEAT = "connections_per_s", "matrix", "repeat"
COLUMNS = (
    MATRIX,
    *Factor,
    REPEAT,
    "started",
    "connections",
    RATE,
    "bytes_per_connection",
    "handshakes",
    "not_successful",
    "resumed_share",
    *_PERCENTILES,
    *(f"{part}_mean_us" for part in _PARTS),
    "lost",
)
_NUMBERS = tuple(name for name in COLUMNS if name not in (MATRIX, *Factor, "started"))
_NUMBER = re.compile(r"(?:\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d\d)?)?", re.ASCII)
_LARGEST = 1 << 28


def row(matrix: Matrix, cell: Cell, repeat: int, server: Snapshot, client: ClientReport) -> dict[str, str]:
    """One run: `server` holds what was counted during it. What isn't known is empty."""
    handshakes = server.handshakes
    assert handshakes is not None
    good = total(handshakes, Ending.SUCCESS)
    count = good.count if good else 0
    resumed = handshakes.mix.get(Label.RESUMED)
    connections = client.connections
    return {
        MATRIX: matrix.identity,
        **{factor: cell[factor] for factor in Factor},
        REPEAT: str(repeat),
        "started": server.started,
        "connections": str(connections.least) if connections and connections.least == connections.most else "",
        RATE: _figure(client, "connections a second"),
        "bytes_per_connection": _figure(client, "bytes a connection"),
        "handshakes": str(count),
        "not_successful": str(sum(group.count for group in handshakes.groups) - count),
        "resumed_share": f"{resumed.get(YES, 0) / count:.6g}" if resumed and count else "",
        **(_times(good) if good else {}),
        "lost": str(_lost(server, handshakes)),
    }


def _figure(client: ClientReport, name: str) -> str:
    figure = client.figure(name)
    return f"{figure.value:.6g}" if figure else ""


def _times(good: Group) -> dict[str, str]:
    """Percentiles of the whole handshake, and the means over all handshakes, so that the parts add up to the whole."""
    quantiles = {name: quantile_ns(good.parts[Part.WALL], q) for name, q in _PERCENTILES.items()}
    parts = good.estimated.parts
    unknown = () if good.phased else (*WINDOWED, Part.REST)
    means = {part: parts[part].total_ns / good.count if part in parts else 0.0 for part in _PARTS if part not in unknown}
    return {
        **{name: _us(value) for name, value in quantiles.items() if value is not None},
        **{f"{part}_mean_us": _us(mean) for part, mean in means.items()},
    }


def _us(value_ns: float) -> str:
    return f"{value_ns / 1e3:.3f}"


def _lost(server: Snapshot, handshakes: Handshakes) -> int:
    losses = server.losses
    return losses.map_full + losses.events_dropped + handshakes.dropped + handshakes.partial


@dataclass(frozen=True)
class MatrixRows:
    """The rows that a file holds; `torn`: its last line was cut off in the middle, and has been removed."""

    rows: tuple[Mapping[str, str], ...] = ()
    torn: bool = False

    @property
    def done(self) -> frozenset[tuple[tuple[str, ...], int]]:
        """The runs: their cells' keys, and which repeat they were."""
        return frozenset((tuple(row[factor] for factor in Factor), int(row[REPEAT])) for row in self.rows)


def kept(path: str, matrix: Matrix) -> MatrixRows:
    """The contents of a file, nothing where there is none; it stays as it is. LoadError where it is something else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return MatrixRows()
    except OSError as error:
        raise LoadError(f"{path} can't be read: {error.strerror}.") from None
    try:
        return _kept(fd, path, matrix)[0]
    finally:
        os.close(fd)


def _kept(fd: int, path: str, matrix: Matrix) -> tuple[MatrixRows, int]:
    """The contents of the file, and how many bytes of it are whole lines."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        raise LoadError(f"{path} isn't a regular file: name another for the runs' figures.")
    if about.st_size > _LARGEST:
        raise LoadError(f"{path} is too large for the runs of a matrix.")
    with open(fd, "rb", closefd=False) as file:
        data = file.read(_LARGEST)
    whole = data[: data.rfind(b"\n") + 1]
    kept = MatrixRows(read(whole.decode(errors="replace"), path, matrix.identity), torn=len(whole) < len(data))
    if kept.torn and not whole and not ",".join(COLUMNS).encode().startswith(data):
        raise _no_table(path)
    return kept, len(whole)


def _no_table(path: str) -> LoadError:
    return LoadError(f"{path} isn't a table of a matrix's runs: name another file.")


class MatrixTable:
    """The open file of a matrix that is being run. A context manager; `kept` is what the file held when it was opened."""

    def __init__(self, path: str, fd: int, kept: MatrixRows) -> None:
        self._path, self._fd = path, fd
        self.kept = kept

    @classmethod
    def open(cls, path: str, matrix: Matrix) -> MatrixTable:
        """Opens and locks the file, which is made if there is none. LoadError where it holds something else."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LoadError(f"{path} can't be written: {error.strerror}.") from None
        try:
            _lock(fd, path)
            return cls(path, fd, _begin(fd, path, matrix))
        except BaseException:
            os.close(fd)
            raise

    def __enter__(self) -> MatrixTable:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def append(self, row: Mapping[str, str]) -> None:
        """A row, on the disk when this returns."""
        _write(self._fd, self._path, [[row.get(column, "") for column in COLUMNS]])


def _lock(fd: int, path: str) -> None:
    """By the descriptor's own lock: a POSIX lock would go as soon as any descriptor of this file is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LoadError(f"{path} is being written by another run of a matrix.") from None


def _begin(fd: int, path: str, matrix: Matrix) -> MatrixRows:
    """Return the contents of the file; an empty one gets its heading."""
    kept, whole = _kept(fd, path, matrix)
    try:
        os.ftruncate(fd, whole)
    except OSError as error:
        raise LoadError(f"{path} can't be written: {error.strerror}.") from None
    if not whole:
        _write(fd, path, [COLUMNS])
    return kept


def _write(fd: int, path: str, rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        os.write(fd, text.getvalue().encode())
        os.fsync(fd)
    except OSError as error:
        raise LoadError(f"{path} can't be written: {error.strerror}.") from None


def read(text: str, path: str, identity: str) -> tuple[Mapping[str, str], ...]:
    """The rows of a table's text; LoadError where it isn't one, or is another matrix's."""
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        raise _no_table(path) from None
    if not lines:
        return ()
    if tuple(lines[0]) != COLUMNS:
        raise _no_table(path)
    rows = []
    for number, line in enumerate(lines[1:], 2):
        row = dict(zip(COLUMNS, line, strict=False))
        if (
            len(line) != len(COLUMNS)
            or not row[REPEAT].isdecimal()
            or not all(_NUMBER.fullmatch(row[name]) for name in _NUMBERS)
        ):
            raise LoadError(f"{path}, line {number}, isn't a row of its table: correct the line, or name another file.")
        if row[MATRIX] != identity:
            raise LoadError(
                f"{path} holds runs of another matrix, {row[MATRIX]}, and this one is {identity}: the file has changed since."
                " Name another output, or change it back."
            )
        rows.append(row)
    return tuple(rows)
