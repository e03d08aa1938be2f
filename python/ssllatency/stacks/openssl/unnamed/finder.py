# SPDX-License-Identifier: Apache-2.0
"""The functions of an OpenSSL without symbols as they are found one by the other, and what is known of them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, SymbolicAddress, Value
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.found_functions import FOUND, the_one
from ssllatency.stacks.openssl.unnamed.raised_names import Raised, RaisedNames
from ssllatency.stacks.openssl.unnamed.raised_numbers import RaisedNumbers, function_numbers

MACHINE = "state_machine"
"""The function that all handshakes go through."""
CONNECTION = SymbolicAddress("argument", 0)
MOST_FIELDS = 32  # of which each is tried with each other one: real functions look at fewer than ten
NEAR = 1 << 16  # bytes between functions of one source file
SMALL = 256  # bytes of an accessor
_FILE_NAME = b"ssl/ssl_lib.c"
_OF_CONNECTION: Mapping[tuple[int, ...], int] = {
    (0,): 0
}  # since 3.2 its type; before, the version, which nothing here asks for
_MOST_FUNCTIONS = 2048
_BESIDE = 1 << 12  # bytes between functions of the state machine's file

Fields = Mapping[tuple[int, ...], int]


def _raised(image: Image, names: Collection[str]) -> Raised:
    """The names that functions give, as this release of OpenSSL gives them."""
    numbers = function_numbers(image)
    looked_for = dict.fromkeys(names)
    return RaisedNumbers(image, looked_for, MACHINE, numbers) if numbers else RaisedNames(image, looked_for, MACHINE)


class OpenSslFinder:
    """The functions of one image by name: `functions`, those that do what accessors do in `accessors`, and of the others in
    `missing` why they weren't taken; `offsets` of what a connection shows, as connection() of a stack has them. Unplannable
    from the constructor where nothing can be found."""

    def __init__(self, image: Image, raising: Collection[str]) -> None:
        if not all(any(True for _ in image.find_string(text)) for text in (_FILE_NAME, MACHINE.encode())):
            raise Unplannable("no text in it names OpenSSL's source and the function that all handshakes go through")
        self.image = image
        self.raised = _raised(image, raising)
        self.numbered = isinstance(self.raised, RaisedNumbers)
        """Whether it is OpenSSL 1.1.1."""
        self.told: Collection[str] = ()
        self._followed: dict[int, Evaluation] = {}
        self.functions: dict[str, Function] = {}
        self.accessors: dict[str, Function] = {}
        self.missing: dict[str, str] = {}
        self.offsets: dict[str, int] = {}

    def take(self, name: str, find: Callable[[], Collection[Range]]) -> None:
        """Takes the one function that is found."""
        try:
            start, end = the_one(find)
        except (Unplannable, ElfError) as reason:
            self.miss(name, str(reason))
            return
        if any(function.address == start for function in self.functions.values()):
            self.miss(name, "it can't be told from another")
            return
        self.missing.pop(name, None)
        self.functions[name] = Function(name, start, end - start, FOUND)
        self.image.name_functions({**self.accessors, **self.functions})

    def name_accessor(self, name: str, bounds: Range | None) -> None:
        """Gives a function the name of an accessor, unless that is known. It is only read, so it may be another that does the
        same."""
        if bounds and name not in self.functions:
            self.accessors[name] = Function(name, bounds[0], bounds[1] - bounds[0], FOUND)
            self.image.name_functions({**self.accessors, **self.functions})

    def refuse(self, name: str, why: str) -> None:
        """Take back a function that has been found."""
        del self.functions[name]
        self.miss(name, why)

    def miss(self, name: str, why: str) -> None:
        """Notes why a function isn't taken, if that is worth telling."""
        if name in self.told:
            self.missing[name] = why

    def address(self, name: str) -> int:
        """Return where a function begins that has been found; 0 for another."""
        return self.functions[name].address if name in self.functions else 0

    def known(self, name: str) -> int:
        """Return where a function begins that another one is found by. Unplannable where it hasn't been found."""
        address = self.address(name)
        if not address:
            raise Unplannable(f"it is found by {name}, which isn't found")
        return address

    def follow(
        self,
        address: int,
        arguments: Mapping[str, Value] | None = None,
        fields: Fields | None = None,
        calls: Mapping[str, int] | None = None,
    ) -> Evaluation:
        """Follow the function for a connection."""
        if not (arguments or fields or calls):
            return self._plain(address)
        case = Assumptions({"rdi": CONNECTION, **(arguments or {})}, {**_OF_CONNECTION, **(fields or {})}, dict(calls or {}))
        return followed_in(self.image, address, case)

    def _plain(self, address: int) -> Evaluation:
        """Follow it where nothing more is known."""
        if address not in self._followed:
            case = Assumptions({"rdi": CONNECTION}, _OF_CONNECTION)
            self._followed[address] = followed_in(self.image, address, case)
        return self._followed[address]

    def bounds(self, name: str) -> Range:
        """Return those of a function that has been found."""
        function = self.functions[name]
        return function.address, function.address + function.size

    def called_with_own(self, address: int) -> set[int]:
        """The functions that it passes its first argument on to."""
        calls = self.follow(address).calls
        return {call.target for call in calls if call.arguments[0] == CONNECTION and isinstance(call.target, int)}

    def passing_on(self, address: int) -> list[Range]:
        """The functions of the same source file that only go on to this one with a 1 more: SSL_get_error since OpenSSL 3.3, and
        what has a peer's key checked."""
        sites = calls_to(self.image, {address}, (max(0, address - NEAR), address + NEAR))[address]
        callers = {bounds for site in sites if (bounds := self.image.function_bounds(site)) and bounds[0] != address}
        called = {each: {(call.target, call.arguments[2]) for call in self.raised.calls(each)} for each in callers}
        return [each for each, targets in called.items() if targets == {(address, 1)}]

    @cached_property
    def within(self) -> Range:
        """The range of the functions around those of ssl_lib.c."""
        named = [self.address(name) for name in ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown")]
        known = sorted(filter(None, named))
        if not known or known[-1] - known[0] > 4 * NEAR:
            raise Unplannable("the functions of ssl_lib.c aren't found in one place")
        return max(0, known[0] - NEAR), known[-1] + NEAR

    @cached_property
    def libssl(self) -> list[Range]:
        """The functions there, and those of the state machine's file."""
        functions = list(islice(self._functions_in(*self.within), _MOST_FUNCTIONS))
        machine = self.address(MACHINE)
        around = self._functions_in(max(0, machine - _BESIDE), machine) if machine else ()
        return sorted({*functions, *islice(around, _MOST_FUNCTIONS)})

    @cached_property
    def small(self) -> list[Range]:
        """Those of libssl that may be accessors."""
        return [each for each in self.libssl if each[1] - each[0] < SMALL]

    @cached_property
    def accessors_around(self) -> list[Range]:
        """Functions as small from further around, in which accessors lie that other source files have: only to be read."""
        start, end = self.within
        further = islice(self._functions_in(max(0, start - NEAR), end + NEAR), 2 * _MOST_FUNCTIONS)
        return list(dict.fromkeys((*self.small, *(each for each in further if each[1] - each[0] < SMALL))))

    def _functions_in(self, start: int, end: int) -> Iterator[Range]:
        at = start
        while at < end:
            bounds = self.image.function_bounds(at)
            if bounds and bounds[0] >= start and bounds[1] > bounds[0]:
                yield bounds
            at = bounds[1] if bounds and bounds[1] > at else at + 1 if at % 16 else at + 16
