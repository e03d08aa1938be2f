# SPDX-License-Identifier: Apache-2.0
"""The functions of rustls and ring in one image: by their symbols, or else by where they may panic, by the tables of methods
(vtables) that hold them, and by who calls them. Each is taken only where exactly one function is what is looked for.

A vtable is what drops the object, its size, its alignment, and then the methods of the trait, those of the trait that it builds
on first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from weakref import WeakKeyDictionary

from ssllatency.code.calls import calls_through, calls_to
from ssllatency.data_class import dataclass
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.rustls.aws_lc_rs import function_of, prefixes
from ssllatency.stacks.rustls.operations import (
    AGREE,
    AWS_LC_RS,
    CLIENT_HELLO,
    ECDSA_SIGN,
    ED25519_SIGN,
    HANDLED,
    RSA_SIGN,
    SIGNED,
)
from ssllatency.stacks.rustls.panic_locations import PanicLocations
from ssllatency.stacks.rustls.rust_names import generic_symbol, method_symbol

FOUND = "panic locations"
"""How functions were found that no symbol names."""
SYMBOLS = {
    **{name: method_symbol(name) for name in (*HANDLED, *SIGNED)},
    AGREE: generic_symbol(f"{AGREE}_"),  # the other one only calls it
}
"""The symbols of the functions in Rust, by operation."""
_RSA_FILES = ("rsa/keypair.rs", "arithmetic/bigint.rs")
_ECDSA_FILES = ("ec/suite_b/ecdsa/signing.rs",)
_ED25519_FILES = ("ec/curve25519/ed25519/signing.rs", "ec/curve25519/scalar.rs")
_LEVELS = 3  # from a function that may panic to the method that calls it
_MOST_FUNCTIONS = 64  # of one level
_MOST_CALLS = 1024  # of the functions of one level
_MOST_PLACES = 64  # that hold one function's address
_POINTER, _METHODS = 8, 3  # bytes; words of a vtable before its methods
_LARGEST_STATE, _LEAST_OF_STATE = 1 << 16, 3  # bytes of a state of a handshake; its methods: handle, and what most share
_LARGEST_SIGNER, _MOST_BEFORE = 64, 3  # bytes of a signer; words in front of its methods sign and scheme
_LARGEST_SCHEME = 64  # bytes of the latter, which only returns what the signer holds


class RustFunctions:
    """The functions of one image. ElfError where its tables are damaged."""

    def __init__(self, image: Image) -> None:
        self._image = image

    @cached_property
    def _locations(self) -> PanicLocations:
        """Read only where symbols don't name all."""
        return PanicLocations(self._image)

    def functions(self) -> dict[str, Function]:
        """All that were found, by operation, each another one."""
        found = {name: function for name in SYMBOLS if (function := self._one_of(name))}
        addresses = [function.address for function in found.values()]
        return {name: function for name, function in found.items() if addresses.count(function.address) == 1}

    def _one_of(self, name: str) -> Function | None:
        """The function of that operation. Where symbols name several, as of two versions of rustls in one program, how one of
        them looks tells nothing."""
        names = self._image.names_matching(SYMBOLS[name])
        functions = {function for each in names if (function := self._image.own_function(each))}
        if not functions:
            return self._unnamed(name)
        return replace(functions.pop(), name=name) if len(functions) == 1 else None

    def _unnamed(self, name: str) -> Function | None:
        finders: dict[str, Callable[[], Collection[Range]]] = {
            CLIENT_HELLO: lambda: self._methods(self._locations.of("rustls", "server/hs.rs"), self._handles),
            RSA_SIGN: lambda: self._methods(self._locations.of("ring", *_RSA_FILES), self._signs),
            ECDSA_SIGN: lambda: self._methods(self._locations.of("ring", *_ECDSA_FILES), self._signs),
            ED25519_SIGN: lambda: self._methods(self._locations.of("ring", *_ED25519_FILES), self._signs),
            AGREE: lambda: self._locations.of("ring", "agreement.rs"),
        }
        found = finders[name]() if name in finders else ()
        if len(found) != 1:
            return None
        ((start, end),) = found
        return Function(name, start, end - start, FOUND)

    def _methods(self, functions: set[Range], is_method: Callable[[Range], bool]) -> set[Range]:
        """Those of the functions that are such methods; where none is, those that call one, and so on."""
        level = functions
        seen: set[Range] = set()
        for _ in range(_LEVELS):
            if not level or len(level) > _MOST_FUNCTIONS:
                break
            if found := {function for function in level if is_method(function)}:
                return found
            seen |= level
            level = self._callers(level) - seen
        return set()

    def _callers(self, functions: set[Range]) -> set[Range]:
        """Those that call one of them, directly or through a word that holds its address."""
        direct = calls_to(self._image, [start for start, _ in functions])
        words = {word for start, _ in functions for word in self._image.pointers_to(start)[:_MOST_PLACES]}
        places = {*islice(chain(*direct.values(), calls_through(self._image, words)), _MOST_CALLS)}
        callers = {self._image.function_bounds(place) for place in places}
        return {caller for caller in callers if caller and not self._image.is_part(caller[0])}

    def _handles(self, function: Range) -> bool:
        """Whether it is the first method of a large object, and others follow."""
        return any(
            self._is_vtable(start, _LARGEST_STATE) and self._are_functions(start, _METHODS, _METHODS + _LEAST_OF_STATE)
            for start in self._starts(function, _METHODS)
        )

    def _signs(self, function: Range) -> bool:
        """Whether it is a method of a small object, followed by one as small as that which returns the scheme of signatures. In
        front of it there may be Debug's method, and the vtables of the traits that it builds on."""
        return any(
            self._is_vtable(start, _LARGEST_SIGNER)
            and all(self._image.pointer(start + word * _POINTER) for word in range(_METHODS, place))
            and self._is_small(start + (place + 1) * _POINTER)
            for place in range(_METHODS, _METHODS + _MOST_BEFORE + 1)
            for start in self._starts(function, place)
        )

    def _starts(self, function: Range, word: int) -> list[int]:
        """The places where vtables would begin that hold the function as this word."""
        places = self._image.pointers_to(function[0])[:_MOST_PLACES]
        return [place - word * _POINTER for place in places if place > word * _POINTER]

    def _is_vtable(self, start: int, largest: int) -> bool:
        """Whether it begins as that of objects that have something to be dropped, and hold words."""
        size, alignment = (self._image.constant(start + word * _POINTER, 8) for word in (1, 2))
        small = alignment == _POINTER and size is not None and 0 < size <= largest and size % _POINTER == 0
        return small and self._are_functions(start, 0, 1)

    def _are_functions(self, start: int, first: int, end: int) -> bool:
        """Whether these words hold the addresses of code."""
        return all(self._image.executable(self._image.pointer(start + word * _POINTER) or 0) for word in range(first, end))

    def _is_small(self, place: int) -> bool:
        """Whether a word holds the address of a very small function."""
        address = self._image.pointer(place)
        bounds = self._image.function_bounds(address) if address is not None else None
        return bounds is not None and bounds[0] == address and bounds[1] - bounds[0] <= _LARGEST_SCHEME


_found: WeakKeyDictionary[Image, Mapping[str, Function]] = WeakKeyDictionary()


def functions_in(image: Image) -> Mapping[str, Function]:
    """Those of an image by operation, looked for once; none where its tables are damaged."""
    if image not in _found:
        try:
            _found[image] = RustFunctions(image).functions()
        except ElfError:
            _found[image] = {}
    return _found[image]


@dataclass(frozen=True)
class RustlsTables:
    """The functions of one image by their symbols, which have versions and types in them, and by what else tells them."""

    image: Image

    def find(self, operation: Operation) -> Function | None:
        """None as well where several may be it."""
        if operation.library == AWS_LC_RS:
            return function_of(self.image, operation)
        return functions_in(self.image).get(operation.name)

    def may_hold(self, operation: Operation) -> bool:
        """Of AWS-LC no: the linker leaves out what isn't called, and the symbols name all others."""
        return operation.library != AWS_LC_RS

    def obstacle(self, operation: Operation) -> str:
        """Say that there are several versions of AWS-LC."""
        several = operation.library == AWS_LC_RS and len(prefixes(self.image)) > 1
        return "several versions of AWS-LC are in the file" if several else ""
