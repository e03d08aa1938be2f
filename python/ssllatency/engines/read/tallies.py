# SPDX-License-Identifier: Apache-2.0
"""From the bytes of the tables beside the rows of handshakes to the model: why handshakes failed, which keys they used, and
what they negotiated."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ssllatency import abi
from ssllatency.engines.read.names import CODED, LABELS, cause, key_name, label_value
from ssllatency.model.arithmetic.handshake_sums import add_causes, add_keys
from ssllatency.model.handshakes import Cause, KeyUse, Label, Tallies
from ssllatency.stacks.names import Names

NamesOf = Callable[[int], Names]  # of the library with this index
Pairs = Iterable[tuple[bytes, bytes]]

T = TypeVar("T")
_Words = tuple[int, Sequence[tuple[Label, str]]]  # a process, and labels with their values
_Mixes = dict[int, dict[Label, dict[str, int]]]
_TALLY = struct.Struct("<QQ")  # abi.Tally
_NOTHING = abi.Tally(0, 0)


class _Keys(Generic[T]):
    """The words of a table's keys, made once of each as long as it is there: the counts change, and they don't."""

    def __init__(self, make: Callable[[bytes, NamesOf], T]) -> None:
        self._make = make
        self._made: dict[bytes, T] = {}

    def of(self, pairs: Pairs, names: NamesOf) -> Iterator[tuple[T, bytes]]:
        """The rows, each with what its key says in the key's place."""
        before, self._made = self._made, {}
        for raw_key, value in pairs:
            said = before.get(raw_key) or self._make(raw_key, names)
            self._made[raw_key] = said
            yield said, value


class TallyRows:
    """Reads them again and again."""

    def __init__(self) -> None:
        self._causes, self._uses = _Keys(_cause), _Keys(_use)
        self._mix, self._combinations = _Keys(_of_mix), _Keys(_of_combination)

    def read(self, causes: Pairs, keys: Pairs, mix: Pairs, combinations: Pairs, names: NamesOf) -> dict[int, Tallies]:
        """The counts by process; 0: those that aren't told apart. What only differs in its library's index is one."""
        causes_of: dict[int, list[Cause]] = defaultdict(list)
        for (pid, why, peer), raw in self._causes.of(causes, names):
            causes_of[pid].append(Cause(*why, *_TALLY.unpack(raw), *peer))
        keys_of: dict[int, list[KeyUse]] = defaultdict(list)
        for (pid, operation, key), raw in self._uses.of(keys, names):
            keys_of[pid].append(KeyUse(operation, key, *_TALLY.unpack(raw)))
        mixes: _Mixes = {}
        for words, raw in self._mix.of(mix, names):
            _count(mixes, words, raw)
        for words, raw in self._combinations.of(combinations, names):
            _count(mixes, words, raw)
        return {
            pid: Tallies(add_causes(causes_of.get(pid, ())), add_keys(keys_of.get(pid, ())), mixes.get(pid, {}))
            for pid in {*causes_of, *keys_of, *mixes}
        }


def _count(mixes: _Mixes, words: _Words, raw: bytes) -> None:
    """Adds a row of labels that were counted together."""
    pid, values = words
    count, mix = int.from_bytes(raw, "little"), mixes.setdefault(pid, {})
    for label, value in values:
        counts = mix.setdefault(label, {})
        counts[value] = counts.get(value, 0) + count


def _cause(raw_key: bytes, names: NamesOf) -> tuple[int, Sequence[Any], Sequence[Any]]:
    """The process, and what a Cause says before its counts and after them."""
    key = abi.CauseKey.from_buffer_copy(raw_key)
    why = cause(key, _NOTHING, names(key.library))
    before = why.ending, why.reason, why.code, why.library, why.alert, why.sent, why.state
    return key.tgid, before, (why.peer_left, why.undelivered)


def _use(raw_key: bytes, names: NamesOf) -> tuple[int, str, str]:
    use = abi.KeyUse.from_buffer_copy(raw_key)
    return use.tgid, abi.KeyOperation(use.operation).name.lower(), key_name(use, names(use.library))


def _of_mix(raw_key: bytes, names: NamesOf) -> _Words:
    key = abi.MixKey.from_buffer_copy(raw_key)
    label = abi.Label(key.label)
    return key.tgid, [(LABELS[label], label_value(label, key.value, names(key.library)))]


def _of_combination(raw_key: bytes, names: NamesOf) -> _Words:
    key = abi.CombinationKey.from_buffer_copy(raw_key)
    known = [(abi.Label(number), value) for number, value in enumerate(key.values) if key.known >> number & 1]
    words = ((LABELS[label], label_value(label, value, names(_library(label, key.library)))) for label, value in known)
    return key.tgid, list(words)


def _library(label: abi.Label, library: int) -> int:
    """The library whose names a label's values have: 0 where all have the same."""
    return library if LABELS[label] in CODED else 0


def in_order(tallies: Tallies) -> Tallies:
    """The most frequent causes and values of labels first, and the keys that took most time."""
    return Tallies(
        tuple(sorted(tallies.causes, key=lambda row: -row.count)),
        tuple(sorted(tallies.keys, key=lambda use: -use.total_ns)),
        {label: dict(Counter(tallies.mix[label]).most_common()) for label in LABELS.values() if label in tallies.mix},
    )


def single_labels(combinations: Pairs) -> list[tuple[bytes, bytes]]:
    """The counts of labels that were counted together, label by label, as the map of single ones has them."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for raw_key, raw_count in combinations:
        key, count = abi.CombinationKey.from_buffer_copy(raw_key), int.from_bytes(raw_count, "little")
        for number, value in enumerate(key.values):
            if key.known >> number & 1:
                counts[key.tgid, number, _library(abi.Label(number), key.library), value] += count
    return [
        (bytes(abi.MixKey(tgid, number, library, value)), count.to_bytes(8, "little"))
        for (tgid, number, library, value), count in counts.items()
    ]
