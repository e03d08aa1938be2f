# SPDX-License-Identifier: Apache-2.0
"""The names that functions give with the errors that they raise, in an OpenSSL 3 without symbols.

Since OpenSSL 3.0 each error is raised by ERR_set_debug(file, line, function) and what follows it: so a function that raises one
holds its own name, and those that the compiler has built into it hold theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cached_property

from ssllatency.code.constant_blocks import ConstantCall
from ssllatency.code.evaluate import calls_with_constants
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.source_files import references

_FILE, _LINE, _NAME = 0, 1, 2  # arguments of ERR_set_debug
_LEAST_CALLS, _TIMES = 6, 4  # of the function that raises errors; how much more often than the next one
_MOST_FUNCTIONS, _MOST_CODE = 2048, 2 << 20
# Static functions that some compilers build into each of their callers, which then give these names beside their own: what
# starts an ASYNC job, and what derives keys before TLS 1.3.
_BUILT_IN = {"ssl_start_async_job", "tls1_PRF"}


class Raised(ABC):
    """The names, of those looked for, that functions of an image give with their errors. That called `others_in`, of which more
    is known than its errors, may give others as well. Unplannable from what asks, where too much code would have to be read, or
    no function is called as the one that raises errors is."""

    def __init__(self, image: Image, names: Collection[str], others_in: str) -> None:
        self.image = image
        self._names, self._others_in = names, others_in
        self._calls: dict[Range, set[ConstantCall]] = {}

    @abstractmethod
    def places(self) -> Iterator[int]:
        """Return the places in code that show which functions are worth reading."""

    @abstractmethod
    def given(self, function: Range) -> set[str]:
        """The names that a function gives; "" for one that isn't known."""

    @property
    @abstractmethod
    def raises(self) -> int:
        """The function that is called with the names."""

    @cached_property
    def holding(self) -> list[Range]:
        """The functions that may give names; parts that were split off a function aren't looked into."""
        found = {bounds for place in self.places() if (bounds := self.image.function_bounds(place))}
        whole = sorted(bounds for bounds in found if not self.image.is_part(bounds[0]))
        if len(whole) > _MOST_FUNCTIONS or sum(end - start for start, end in whole) > _MOST_CODE:
            raise Unplannable("too much code holds the names of OpenSSL's functions")
        return whole

    def calls(self, function: Range) -> set[ConstantCall]:
        if function not in self._calls:
            self._calls[function] = calls_with_constants(self.image, function)
        return self._calls[function]

    def called_most(self, counts_for: Callable[[ConstantCall], bool]) -> int:
        """The function that is called far more often than others by such calls. Unplannable where there is none."""
        votes = Counter(call.target for function in self.holding for call in self.calls(function) if counts_for(call))
        counts = [*sorted(votes.values(), reverse=True), 0, 0]
        if counts[0] < _LEAST_CALLS or counts[0] < _TIMES * counts[1]:
            raise Unplannable("no function is called with the names of files and functions as the one that raises errors is")
        return max(votes, key=lambda target: votes[target])

    @cached_property
    def raising(self) -> dict[str, list[Range]]:
        """The functions that raise errors by these names. Another's errors in one may be those of what was built into it: so
        only `others_in` may have such, but for static functions that compilers build into their callers."""
        raising: dict[str, list[Range]] = {}
        for function in self.holding:
            names = self.given(function)
            for name in names & {*self._names}:
                if name == self._others_in or {name} in (names, names - _BUILT_IN):
                    raising.setdefault(name, []).append(function)
        return raising


class RaisedNames(Raised):
    """The names that are given as texts, as since OpenSSL 3.0."""

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The addresses of the texts that are the names looked for."""
        return {place: name for name in dict.fromkeys(self._names) for place in self.image.find_string(name.encode())}

    def places(self) -> Iterator[int]:
        """Return where code takes the address of one of the names."""
        return (place for place, _ in references(self.image, self._texts))

    @cached_property
    def raises(self) -> int:
        """ERR_set_debug: it is called most with the name of a source file, a line and the name of a function."""
        return self.called_most(
            lambda call: (
                call.arguments[_NAME] in self._texts and call.arguments[_LINE] is not None and self._file(call).endswith(".c")
            )
        )

    def _file(self, call: ConstantCall) -> str:
        return self.image.text(call.arguments[_FILE] or 0)

    def given(self, function: Range) -> set[str]:
        """The names that it passes on."""
        calls = (call for call in self.calls(function) if call.target == self.raises)
        return {self.image.text(call.arguments[_NAME] or 0) for call in calls}
