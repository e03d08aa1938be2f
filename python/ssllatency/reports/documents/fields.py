# SPDX-License-Identifier: Apache-2.0
"""The fields of a document of ours, or of one that claims to be: an error becomes one sentence that names the field."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NoReturn

from ssllatency import fields
from ssllatency.errors import SsllatencyError
from ssllatency.units import printable

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)

_UNREADABLE = "This is not a measurement that ssllatency can read"


class ContradictionError(SsllatencyError):
    """Numbers of a measurement that must add up don't; `which` names them and says how they must."""

    def __init__(self, which: str) -> None:
        super().__init__(f"{_UNREADABLE}: {which}.")
        self.which = which


class DocumentField(fields.Field):
    """A field of a measurement. Every method raises SsllatencyError."""

    __slots__ = ()

    @property
    def path(self) -> str:
        return printable(super().path)

    def error(self, must: str) -> SsllatencyError:
        return SsllatencyError(f"{_UNREADABLE}: {self.must_be(must)}.")

    def contradict(self, must: str) -> NoReturn:
        """Say what the field must be by other numbers of the measurement."""
        raise ContradictionError(self.must_be(must))

    def time(self) -> str:
        """A time as RFC 3339 writes it, with a zone."""
        text = self.text()
        try:
            valid = _RFC_3339.fullmatch(text) and datetime.fromisoformat(text)
        except ValueError:
            valid = None
        return text if valid else self.refuse("a time such as 2030-01-31T12:00:00Z")
