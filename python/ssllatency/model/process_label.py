# SPDX-License-Identifier: Apache-2.0
"""The value of the label process: a number and a name. As text, in documents and reports, it is "nginx(17)"; that of what ended
processes of a service have counted is "ended: nginx.service", without a PID, which none has."""

from __future__ import annotations

from dataclasses import dataclass

_ENDED = "ended: "
_MOST_DIGITS = 10  # more than any PID has: int() refuses thousands of them


@dataclass(frozen=True, slots=True)
class ProcessLabel:
    """A process by which handshakes are told apart. `pid` is 0 where there is none: for a text of another form, and for the
    `ended` processes of a service, of which `name` is the name then."""

    pid: int
    name: str
    ended: bool = False

    def __str__(self) -> str:
        if self.ended:
            return f"{_ENDED}{self.name}"
        return f"{self.name}({self.pid})" if self.pid else self.name

    @classmethod
    def ended_in(cls, service: str) -> ProcessLabel:
        """The label of the ended processes of a service."""
        return cls(0, service.replace("(", "["), ended=True)

    @classmethod
    def from_text(cls, text: str) -> ProcessLabel:
        """Return the label whose text this is."""
        if text.startswith(_ENDED) and "(" not in text:
            return cls(0, text.removeprefix(_ENDED), ended=True)
        name, _, rest = text.rpartition("(")
        digits = rest.removesuffix(")")
        numbered = cls(int(digits), name) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else cls(0, text)
        return numbered if str(numbered) == text else cls(0, text)

    @property
    def identity(self) -> int | str:
        """The identity of the process: the PID alone, as a process's name may become known, or change, later; else the text."""
        return self.pid or str(self)
