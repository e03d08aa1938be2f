# SPDX-License-Identifier: Apache-2.0
"""A bound on the series of one service in each metric whose labels say what a peer or the process itself chose: as alerts, of
which a client can have another one in each connection. So no service takes the room of others' series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ssllatency.data_class import dataclass
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.points import Distribution, Labels, labels

OTHER = "other"
_MOST_REMEMBERED = 1024  # rows of a service that have no place of their own; of more it isn't counted how many there are
_RECEIVED = names.SENT, "false"
_Row = tuple[str, Labels]


@dataclass(frozen=True)
class _Bounded:
    """A metric of which a service has at most `most` rows of its own, and as many of alerts that were received. In those beyond
    that `label` is OTHER, and beside it only these are `kept`. `ranked_by`: the metric by whose counts the most frequent are
    chosen, "" for this one; another where the rows of both belong together."""

    label: str
    kept: tuple[str, ...] = ()
    ranked_by: str = ""
    most: int = 64


_DURATION, _OPERATIONS = "ssllatency.handshake.duration", "ssllatency.private_key.operations"
_BOUNDED = {
    "ssllatency.handshake.errors": _Bounded(names.ERROR, (names.OUTCOME,), most=32),
    "ssllatency.handshake.ciphers": _Bounded(names.CIPHER),
    "ssllatency.handshake.curves": _Bounded(names.CURVE),
    _DURATION: _Bounded(names.VERSION, (names.OUTCOME, names.RESUMED)),
    "ssllatency.handshake.calls": _Bounded(names.VERSION, (names.OUTCOME, names.RESUMED), _DURATION),
    _OPERATIONS: _Bounded(names.KEY, (names.OPERATION,)),
    "ssllatency.private_key.time": _Bounded(names.KEY, (names.OPERATION,), _OPERATIONS),
    "ssllatency.call.retries": _Bounded(names.REASON, (names.FUNCTION,)),
    "ssllatency.call.failures": _Bounded(names.REASON, (names.FUNCTION,)),
}


class Places:
    """The places of one service. A row that has a place of its own keeps it, and one that has none gets none later, so that
    neither it nor the others' sum ever falls. One that counts nothing, as those of a process that has another's PID, is among
    the others until it does, and takes no place. `left` is how many have none."""

    def __init__(self) -> None:
        self._places: dict[_Row, _Row] = {}  # where each row counts: as itself, or among others
        self._taken = Counter[tuple[str, bool]]()
        self.left = 0

    def others(self, counts: Mapping[_Row, Distribution | float]) -> dict[_Row, _Row]:
        """The rows that have no place of their own, each with the one in which it counts: mostly none."""
        others: dict[_Row, _Row] = {}
        new = []
        for row in counts:
            if row[0] in _BOUNDED:
                place = self._places.get(row)
                if place is None:
                    new.append((-_rank(row, counts), row))
                elif place != row:
                    others[row] = place
        for rank, row in sorted(new):
            place = self._place_of(row) if rank or not _is_nothing(counts[row]) else _other(row)
            if place != row:
                others[row] = place
        return others

    def _place_of(self, row: _Row) -> _Row:
        family, values = row
        other, pool = _other(row), (family, _RECEIVED in values)
        if row != other and self._taken[pool] >= _BOUNDED[family].most:
            if self.left < _MOST_REMEMBERED:
                self._places[row] = other
                self.left += 1
            return other
        self._taken[pool] += row != other
        self._places[row] = row
        return row


def _rank(row: _Row, counts: Mapping[_Row, Distribution | float]) -> float:
    family, values = row
    value = counts.get((_BOUNDED[family].ranked_by or family, values), 0)
    return value.buckets.count if isinstance(value, Distribution) else value


def _is_nothing(value: Distribution | float) -> bool:
    return not (value.total_ns or value.buckets.count if isinstance(value, Distribution) else value)


def _other(row: _Row) -> _Row:
    family, values = row
    bounded = _BOUNDED[family]
    return family, labels({**{name: value for name, value in values if name in bounded.kept}, bounded.label: OTHER})
