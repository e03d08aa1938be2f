# SPDX-License-Identifier: Apache-2.0
"""The errors that each function of libssl raises, in a BoringSSL or AWS-LC without symbols.

Each error is raised by ERR_put_error(library, unused, reason, file, line), whose reasons keep their numbers from release to
release. Nearly all of libssl's functions of importance raise some, and the set of reasons tells many of them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property
from weakref import WeakKeyDictionary

from ssllatency.code.constant_blocks import ConstantCall
from ssllatency.code.evaluate import calls_with_constants
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.source_files import file_names, places_naming

_LIBRARY, _REASON, _FILE, _LINE = 0, 2, 3, 4  # ERR_put_error's arguments
_FOLDER, _MAIN_FILE = "ssl", "ssl_lib"
# openssl/ssl.h: SSL_R_CERTIFICATE_VERIFY_FAILED and SSL_R_SERVER_CERT_CHANGED, raised where certificates are checked
_CHECKING_FILE, _CHECKS = "handshake", {125, 273}
_MOST_FUNCTIONS = 4096
# Bytes between libssl's functions, and from the first of those that raise errors to the last.
_NEAR, _FARTHEST = 1 << 16, 8 << 20
_LEAST_CALLS, _TIMES = 20, 10  # of the function that is taken for ERR_put_error; how much more often than the next one
_MOST_CODE = 4 << 20  # bytes of all functions that raise errors: libssl's are a quarter of a megabyte


class RaisedErrors:
    """The errors that the functions of one image raise. Unplannable from the constructor where that can't be told."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._files = {address: _stem(image.text(address)) for address in file_names(image, _FOLDER)}
        if _MAIN_FILE not in self._files.values():  # as in a libcrypto, whose code need not be searched then
            raise Unplannable(f"no source file of libssl's is called {_MAIN_FILE}")
        self._calls: dict[Range, set[ConstantCall]] = {}
        self.put_error = self._put_error()
        """The address of ERR_put_error."""

    def calls(self, function: Range) -> set[ConstantCall]:
        """The direct calls of a function, with their constant arguments."""
        if function not in self._calls:
            self._calls[function] = calls_with_constants(self._image, function)
        return self._calls[function]

    def callees(self, function: Range) -> set[Range]:
        """The functions that it calls directly, or ends in."""
        called = {self._image.function_bounds(call.target) for call in self.calls(function)}
        targets = {call.target for call in self.calls(function)}
        return {bounds for bounds in called if bounds and bounds[0] in targets and bounds != function}

    def reasons(self, function: Range, stem: str) -> set[int | None]:
        """The reasons that a function raises in the source file called `stem`, whose name ends in .c or .cc."""
        return {
            call.arguments[_REASON]
            for call in self.calls(function)
            if call.target == self.put_error and _stem(self._image.text(call.arguments[_FILE] or 0)) == stem
        }

    def lines(self, function: Range, reason: int) -> set[int]:
        """The lines in which a function raises an error with this reason."""
        lines = {
            call.arguments[_LINE]
            for call in self.calls(function)
            if call.target == self.put_error and call.arguments[_REASON] == reason
        }
        return {line for line in lines if line is not None}

    def of(self, stem: str) -> dict[Range, set[int | None]]:
        """libssl's functions that raise errors in this source file of libssl's, each with its reasons."""
        return self._by_file.get(stem, {})

    def around(self, stems: Collection[str]) -> Range:
        """The range in which the functions lie that raise errors in these source files, and their neighbours. Unplannable where
        they lie too far apart."""
        raising = [function for stem in stems for function in self.of(stem)]
        start, end = min(raising, default=(0, 0))[0], max(raising, default=(0, 0))[1]
        if not raising or end - start > _FARTHEST:
            raise Unplannable("the functions that raise libssl's errors lie too far apart")
        return max(0, start - _NEAR), end + _NEAR

    def checking_certificates(self) -> list[Range]:
        """The functions that raise the errors of the one that checks a peer's certificates."""
        return [function for function, raised in self.of(_CHECKING_FILE).items() if raised >= _CHECKS]

    @cached_property
    def _by_file(self) -> dict[str, dict[Range, set[int | None]]]:
        by_file: dict[str, dict[Range, set[int | None]]] = {}
        for function in self._functions:
            for call in self.calls(function):
                stem = self._files.get(call.arguments[_FILE] or 0)
                if call.target == self.put_error and stem:
                    by_file.setdefault(stem, {}).setdefault(function, set()).add(call.arguments[_REASON])
        return by_file

    @cached_property
    def _functions(self) -> list[Range]:
        """Those that name a source file of libssl's; parts that were split off a function aren't looked into."""
        functions = {
            bounds for place in places_naming(self._image, self._files) if (bounds := self._image.function_bounds(place))
        }
        whole = sorted(bounds for bounds in functions if not self._image.is_part(bounds[0]))
        if len(whole) > _MOST_FUNCTIONS or sum(end - start for start, end in whole) > _MOST_CODE:
            raise Unplannable("too much code names libssl's source files")
        return whole

    def _put_error(self) -> int:
        """The function that is called most with the name of a source file and a line."""
        votes = Counter(
            call.target
            for function in self._functions
            for call in self.calls(function)
            if call.arguments[_FILE] in self._files and call.arguments[_LINE] is not None
        )
        ranked = sorted(votes, key=lambda target: votes[target], reverse=True)
        counts = [*(votes[target] for target in ranked), 0, 0]
        if counts[0] < _LEAST_CALLS or counts[0] < _TIMES * counts[1]:
            raise Unplannable("no function is called with the names of libssl's source files as ERR_put_error is")
        return ranked[0]


_errors: WeakKeyDictionary[Image, RaisedErrors] = WeakKeyDictionary()


def errors_of(image: Image) -> RaisedErrors:
    """The errors that the functions of an image raise, read once. Unplannable where that can't be told."""
    if image not in _errors:
        _errors[image] = RaisedErrors(image)
    return _errors[image]


def _stem(path: str) -> str:
    """The name of a source file without folders and what follows a dot: "ssl_lib" of "…/ssl/ssl_lib.cc"."""
    return path.rpartition("/")[2].partition(".")[0]
