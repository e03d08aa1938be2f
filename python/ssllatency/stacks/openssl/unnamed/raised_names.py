# SPDX-License-Identifier: Apache-2.0
"""The names that functions give with the errors that they raise, in an OpenSSL 3 without symbols.

Since OpenSSL 3.0 each error is raised by ERR_set_debug(file, line, function) and what follows it: so a function that raises one
holds its own name, and those that the compiler has built into it hold theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property

from ssllatency.code.constant_blocks import ConstantCall
from ssllatency.code.evaluate import calls_with_constants
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.source_files import references

_FILE, _LINE, _NAME = 0, 1, 2  # arguments of ERR_set_debug
_LEAST_CALLS, _TIMES = 6, 4  # of the function that is taken for ERR_set_debug; how much more often than the next one
_MOST_FUNCTIONS, _MOST_CODE = 2048, 2 << 20


class RaisedNames:
    """The names, of those looked for, that functions of an image give. That called `others_in`, of which more is known
    than its errors, may give others as well. Unplannable from what asks, where too much code holds the names, or no function is
    called with them as ERR_set_debug is."""

    def __init__(self, image: Image, names: Collection[str], others_in: str) -> None:
        self._image, self._names, self._others_in = image, names, others_in
        self._calls: dict[Range, set[ConstantCall]] = {}

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The addresses of the texts that are the names looked for."""
        return {place: name for name in dict.fromkeys(self._names) for place in self._image.find_string(name.encode())}

    @cached_property
    def holding(self) -> list[Range]:
        """The functions that take the address of one of the names; parts that were split off a function aren't looked into."""
        found = {bounds for place, _ in references(self._image, self._texts) if (bounds := self._image.function_bounds(place))}
        whole = sorted(bounds for bounds in found if not self._image.is_part(bounds[0]))
        if len(whole) > _MOST_FUNCTIONS or sum(end - start for start, end in whole) > _MOST_CODE:
            raise Unplannable("too much code holds the names of OpenSSL's functions")
        return whole

    def calls(self, function: Range) -> set[ConstantCall]:
        if function not in self._calls:
            self._calls[function] = calls_with_constants(self._image, function)
        return self._calls[function]

    @cached_property
    def set_debug(self) -> int:
        """The function that is called most with the name of a source file, a line and the name of a function."""
        votes = Counter(
            call.target
            for function in self.holding
            for call in self.calls(function)
            if call.arguments[_NAME] in self._texts and call.arguments[_LINE] is not None and self._file(call).endswith(".c")
        )
        counts = [*sorted(votes.values(), reverse=True), 0, 0]
        if counts[0] < _LEAST_CALLS or counts[0] < _TIMES * counts[1]:
            raise Unplannable("no function is called with the names of files and functions as ERR_set_debug is")
        return max(votes, key=lambda target: votes[target])

    def _file(self, call: ConstantCall) -> str:
        return self._image.text(call.arguments[_FILE] or 0)

    @cached_property
    def raising(self) -> dict[str, list[Range]]:
        """The functions that raise errors by these names. Another's errors in one may be those of what was built into it: so
        only `others_in` may have such."""
        raising: dict[str, list[Range]] = {}
        for function in self.holding:
            names = {
                self._image.text(call.arguments[_NAME] or 0) for call in self.calls(function) if call.target == self.set_debug
            }
            for name in names & {*self._names}:
                if names == {name} or name == self._others_in:
                    raising.setdefault(name, []).append(function)
        return raising
