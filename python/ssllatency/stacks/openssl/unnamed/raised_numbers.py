# SPDX-License-Identifier: Apache-2.0
"""The numbers of functions that are given with the errors that they raise, in an OpenSSL 1.1.1 without symbols.

Before OpenSSL 3.0 each error is raised by ERR_put_error(library, function, reason, file, line), in libssl's state machine by
ossl_statem_fatal(connection, alert, function, reason, file, line). Which name a number stands for is told by tables that every
program has in which OpenSSL is: rows of {library << 24 | function << 12, name}.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from ssllatency.code.constant_blocks import ConstantCall
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.openssl.unnamed.raised_names import Raised
from ssllatency.stacks.source_files import file_names, places_naming

_LIBRARY, _FUNCTION, _FILE, _LINE = 0, 1, 3, 4  # arguments of ERR_put_error
_FATAL_FUNCTION, _FATAL_REASON, _FATAL_FILE = 2, 3, 4  # of ossl_statem_fatal
_SSL = 20  # ERR_LIB_SSL
_NUMBERS = range(1 << 24, 128 << 24)  # packed, of libraries below those that are given numbers at run time
_REASON = 0xFFF
_FOLDERS = ("ssl", "evp", "x509", "bio", "async", "rsa", "ec")  # of OpenSSL's source, with the functions that are looked for
_ALWAYS = "SSL_do_handshake"

Number = tuple[int | None, int | None]


def function_numbers(image: Image) -> dict[Number, str]:
    """The name of a function by its library's number and its own; empty where the image has no such tables, as OpenSSL 3 has
    none. ElfError where its relocations are damaged."""
    names: dict[Number, str] = {}
    for _, code, target in image.numbered_pointers(lambda code: code in _NUMBERS and not code & _REASON):
        library, function = code >> 24, code >> 12 & 0xFFF
        name = image.text(target)
        if function and name.isascii() and name.isidentifier():
            number = library, function
            names[number] = name if names.get(number, name) == name else ""
    return names if _ALWAYS in (name for (library, _), name in names.items() if library == _SSL) else {}


class RaisedNumbers(Raised):
    """The names, of those looked for, whose numbers functions of an image give."""

    def __init__(self, image: Image, names: Collection[str], others_in: str, numbers: dict[Number, str]) -> None:
        super().__init__(image, names, others_in)
        self._numbers = numbers

    @cached_property
    def _files(self) -> set[int]:
        return {place for folder in _FOLDERS for place in file_names(self.image, folder)}

    def places(self) -> Iterator[int]:
        """Return where code takes the address of the name of a source file."""
        return places_naming(self.image, self._files)

    @cached_property
    def raises(self) -> int:
        """ERR_put_error: it is called most with the name of a source file, a line, and the number of a function."""
        return self.called_most(
            lambda call: (
                self._number(call) in self._numbers
                and call.arguments[_FILE] in self._files
                and call.arguments[_LINE] is not None
            )
        )

    @cached_property
    def fatal(self) -> int:
        """ossl_statem_fatal: likewise, with a reason, and what it raises is libssl's."""
        return self.called_most(
            lambda call: (
                call.target != self.raises
                and (_SSL, call.arguments[_FATAL_FUNCTION]) in self._numbers
                and bool(call.arguments[_FATAL_REASON])
                and call.arguments[_FATAL_FILE] in self._files
            )
        )

    def given(self, function: Range) -> set[str]:
        """The names whose numbers it gives; "" for a number that isn't known."""
        calls = self.calls(function)
        numbers = {self._number(call) for call in calls if call.target == self.raises}
        numbers |= {(_SSL, call.arguments[_FATAL_FUNCTION]) for call in calls if call.target == self.fatal}
        return {self._numbers.get(number, "") for number in numbers}

    def giving(self, name: str) -> list[Range]:
        """The functions that give this name, among others that were built into them or not."""
        return [function for function in self.holding if name in self.given(function)]

    @staticmethod
    def _number(call: ConstantCall) -> Number:
        return call.arguments[_LIBRARY], call.arguments[_FUNCTION]
