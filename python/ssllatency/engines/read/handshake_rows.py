# SPDX-License-Identifier: Apache-2.0
"""From the bytes of the handshakes' maps to the model: pure functions of values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.read.collect import Extremes
from ssllatency.engines.read.handshake_row import HandshakeRowReader, marks_of
from ssllatency.engines.read.names import CODED, LABELS, cause, label_value
from ssllatency.engines.read.who import Texts
from ssllatency.model.arithmetic.handshake_sums import add_groups
from ssllatency.model.handshakes import (
    EVERY,
    NONE,
    WHO,
    Group,
    Label,
    LabelValue,
    Part,
    Single,
)
from ssllatency.model.offload import Batches
from ssllatency.model.process_label import ProcessLabel
from ssllatency.stacks.names import Names

NamesOf = Callable[[int], Names]  # of the library with this index
Pairs = Iterable[tuple[bytes, bytes]]
Views = Iterable[tuple[bytes, bytes | memoryview]]

_PARTS = {abi.Part[part.value.upper()]: part for part in Part}
_NUMBERS = {label: number for number, label in LABELS.items()}
_KEPT = frozenset((Label.VERSION, Label.RESUMED, Label.ROLE, Label.PROCESS))  # whose words only follow from a process's name


@dataclass
class Rows:
    """Reads the rows of the parts' times; `extremes` are those of the intervals read so far, until they are replaced.

    `by`: the labels that were asked for; `singles_by`: those that were asked for of single handshakes alone.
    """

    known_places: Mapping[int, frozenset[Label]]
    name_of: Callable[[int], str]
    texts: Texts
    by: Sequence[Label] = ()
    singles_by: Sequence[Label] = ()
    extremes: Extremes = field(default_factory=Extremes)
    _kept: dict[bytes, HandshakeRowReader] = field(default_factory=dict)
    is_whole: bool = True  # whether each of the groups that were read last has all parts of the same handshakes

    def groups(self, pairs: Views, names: NamesOf, interval: int) -> tuple[Group, ...]:
        """The rows that hold handshakes, the largest first; what only differs in its library's index is one."""
        self._kept, before = {}, self._kept
        alike: dict[tuple[object, ...], list[Group]] = {}
        self.is_whole = True
        for raw_key, memory in pairs:
            row = self._kept[raw_key] = before.get(raw_key) or HandshakeRowReader(raw_key)
            row.look(memory)
            extremes = self._extremes(raw_key, row, interval)
            if Part.WALL in row.parts:
                group = row.group({} if row.is_other else self._labels_of(row, names), extremes)
                alike.setdefault(row.identity(group), []).append(group)
                self.is_whole &= row.is_whole
        groups = [add_groups(found) if len(found) > 1 else found[0] for found in alike.values()]
        return tuple(sorted(groups, key=lambda group: (group.other, -group.count)))

    def _labels_of(self, row: HandshakeRowReader, names: NamesOf) -> Mapping[Label, LabelValue]:
        """The labels of a row: those of the last time where they can't be others."""
        if not _KEPT.issuperset(self.by):
            return self.labels(row.key, self.by, names)
        made_of = self.name_of(row.process) if Label.PROCESS in self.by else ""
        if row.labels is None or row.labels[0] != made_of:
            row.labels = made_of, self.labels(row.key, self.by, names)
        return row.labels[1]

    def _extremes(self, raw_key: bytes, row: HandshakeRowReader, interval: int) -> Mapping[Part, tuple[int | None, int | None]]:
        """Those of each part; nothing where none are wanted."""
        if not self.extremes.wanted:
            return {}
        return {
            part: self.extremes.take((raw_key, number), marks_of(words), interval)
            for part, (number, words, _) in row.parts.items()
        }

    def processes(self) -> list[tuple[bytes, int]]:
        """The rows that were read last, by key, with the process of each."""
        return [(raw_key, row.process) for raw_key, row in self._kept.items()]

    def of_single(self, key: abi.Labels, names: NamesOf) -> dict[Label, str | None]:
        """The values of all labels but that of the process, and of those that tell who shook hands only what was asked for."""
        who = (*self.by, *self.singles_by)
        wanted = (label for label in Label if label is not Label.PROCESS and (label not in WHO or label in who))
        return {label: self._label(key, label, names) for label in wanted}

    def labels(self, key: abi.Labels, by: Sequence[Label], names: NamesOf) -> dict[Label, LabelValue]:
        """The values of these labels."""
        process = key.values[abi.Label.PROCESS]
        return {
            label: ProcessLabel(process, self.name_of(process)) if label is Label.PROCESS else self._label(key, label, names)
            for label in by
        }

    def _label(self, key: abi.Labels, label: Label, names: NamesOf) -> str | None:
        number = _NUMBERS[label]
        value = key.values[number]
        if label is Label.ROLE:
            return "server" if value else "client"
        if not key.known >> number & 1:
            # Its place is known, and no such thing was there: no signature in a resumed handshake, for one.
            return NONE if label in CODED and label in self.known_places.get(key.library, ()) else None
        if label is Label.PORT:
            return str(value) if value else NONE
        if label in WHO:
            return self.texts.of(value)
        return label_value(number, value, names(key.library))


def batches(pairs: Pairs, operations: Sequence[str]) -> tuple[Batches, ...]:
    """The multi-buffer calls by function and lanes used."""
    fill: dict[str, list[int]] = defaultdict(lambda: [0] * (abi.Batch.LANES + 1))
    for raw_key, raw_count in pairs:
        key = abi.BatchKey.from_buffer_copy(raw_key)
        fill[operations[key.operation]][key.lanes] += int.from_bytes(raw_count, "little")
    return tuple(Batches(function, tuple(counts)) for function, counts in sorted(fill.items()))


def single(raw: abi.Single, rows: Rows, names: NamesOf, wall_ns: int) -> Single:
    """One handshake by itself. `wall_ns`: what to add to the kernel's clock for the time of day."""
    because = cause(raw.cause, abi.Tally(1, 0), names(raw.cause.library))
    failed = raw.cause.ending != abi.Ending.SUCCESS
    return Single(
        ended_s=(wall_ns + raw.ended_ns) / 1e9,
        pid=raw.tgid,
        tid=raw.tid,
        comm=raw.comm.decode(errors="replace"),
        ending=because.ending,
        parts={part: raw.parts[number] for number, part in _PARTS.items() if raw.parts[number] or part in EVERY},
        labels=rows.of_single(raw.labels, names),
        calls=raw.calls,
        pauses=raw.pauses,
        reason=because.reason if failed else "",
        alert=because.alert if failed else "",
        state=because.state if failed else "",
        unphased=bool(raw.unphased),
        peer_left=because.peer_left,
        undelivered=because.undelivered,
    )
