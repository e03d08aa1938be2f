# SPDX-License-Identifier: Apache-2.0
"""JSON documents with something wrong in them, and what reading them must come to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents.document import from_document

Path = tuple[str | int, ...]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def changed(good: Mapping[str, Any], path: Path, value: object) -> dict[str, Any]:
    """A good document with the value at `path` replaced, or taken out where `value` is Ellipsis."""
    document = copy.deepcopy(dict(good))
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    """The paths of all values of a document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(inner for step, member in steps for inner in paths_of(member, (*path, step)))]


def assert_refused(document: Mapping[str, Any], sentence: str) -> None:
    """It is refused with `sentence`, a regular expression, in the message."""
    with pytest.raises(SsllatencyError, match=f"^This is not a measurement that ssllatency can read: .*{sentence}.*\\.$"):
        from_document(document)


def assert_rendered_or_refused(document: Mapping[str, Any], render: Callable[[Snapshot], str]) -> None:
    """Either there is a report of it, or one sentence."""
    sentence, report = "", ""
    try:
        report = render(from_document(document))
    except SsllatencyError as refusal:
        sentence = str(refusal)
    assert report or sentence.startswith("This is not a measurement")
    assert report.isascii()
    assert sentence.isprintable()
