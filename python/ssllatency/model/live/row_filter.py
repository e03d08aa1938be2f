# SPDX-License-Identifier: Apache-2.0
"""The filter of a live view's rows: words that each must be in a row's name or its service, or only in what a word names:
`service:`, `pod:`, `namespace:`, `name:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssllatency.data_class import dataclass
from ssllatency.model.live.rows import LiveRow

KEYS = ("service", "pod", "namespace", "name")
_SEPARATOR = "/"  # containers of Kubernetes are called NAMESPACE/POD/CONTAINER


@dataclass(frozen=True)
class RowFilter:
    """Pairs of one of KEYS, "" for any, and the text to look for, in small letters."""

    wanted: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, text: str) -> RowFilter:
        """Read what a user typed."""
        return cls(tuple(map(_condition, text.lower().split())))

    def matches(self, row: LiveRow, services: Mapping[int, str]) -> bool:
        """Whether the row is one of those; `services` by PID."""
        of_row = {services[pid].lower() for pid in row.pids if pid in services}
        name = row.name.lower()
        return all(_is_in(key, text, name, of_row) for key, text in self.wanted)


def _condition(word: str) -> tuple[str, str]:
    key, colon, text = word.partition(":")
    return (key, text) if colon and key in KEYS else ("", word)


def _is_in(key: str, text: str, name: str, services: Iterable[str]) -> bool:
    if key == "name":
        return text in name
    if key in ("namespace", "pod"):
        place = ("namespace", "pod").index(key)
        parts = (service.split(_SEPARATOR, 2) for service in services)
        return any(len(of_pod) == 3 and text in of_pod[place] for of_pod in parts)
    in_service = any(text in service for service in services)
    return in_service or (not key and text in name)
