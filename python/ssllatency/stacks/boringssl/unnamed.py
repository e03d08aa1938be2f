# SPDX-License-Identifier: Apache-2.0
"""Functions of a BoringSSL or AWS-LC whose symbols were stripped, found by the errors that they raise, by what they call and by
what they return. Each is taken only where exactly one function is what is looked for.

SSL_get_error comes first: without it, nothing tells how calls end, and nothing is taken. Where a rule leaves a function out,
`missing` says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in, returned
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import MASK, Assumptions, FieldPath, LoadedField, OutgoingCall, SymbolicAddress, Value
from ssllatency.data_class import dataclass
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.boringssl.chosen_side import CLIENT, SERVER, ChosenSide
from ssllatency.stacks.boringssl.raised_errors import errors_of
from ssllatency.stacks.boringssl.signing import key_functions
from ssllatency.stacks.found_functions import FOUND, FoundOnce, the_one
from ssllatency.stacks.openssl.tables.lookup import OpenSslTables
from ssllatency.stacks.operation import Operation

NAMES = (
    *("SSL_do_handshake", "SSL_accept", "SSL_connect", "SSL_read", "SSL_write", "SSL_shutdown", "SSL_free"),
    *("SSL_get_error", "ERR_put_error", "EVP_DigestSign", "RSA_decrypt", "BIO_read", "BIO_write"),
)
"""Those that are looked for and worth telling of where they aren't found."""
_UNSEARCHED = ("RSA_sign", "RSA_verify", "ECDSA_sign", "ECDSA_verify", "ECDH_compute_key")

# By source file; reasons are those of openssl/ssl.h (SSL_R_*), err.h (ERR_R_*), evp_errors.h and rsa.h.
_LIB = "ssl_lib"
_CONNECTION_TYPE_NOT_SET, _NULL_SSL_CTX, _HANDSHAKE_FAILURE, _UNINITIALIZED, _IN_INIT = 134, 185, 215, 226, 291
_NOT_CALLED = 66
_DIGESTSIGN, _KEY_CANT = "digestsign", 125
_RSA_FILES, _RSA_TOO_SMALL, _RSA_UNKNOWN_PADDING = ("rsa_crypt", "rsa", "rsa_impl"), 135, 143
_BIO_FILE, _BUFFER_FILE, _BIO_UNSUPPORTED = "bio", "ssl_buffer", 115

_CONNECTION, _BUFFER = SymbolicAddress("argument", 0), SymbolicAddress("buffer", 0)
_ITS_OWN = range(11, 15)  # codes that OpenSSL's SSL_get_error doesn't return
_WANT_READ, _WANT_WRITE, _ZERO_RETURN = 2, 3, 6
_UNLESS_ERROR = {1, 5, None}  # what it returns where an error lies in the queue
_BEGINS_BY_TEST = re.compile(rb"\x85[\xc0\xc9\xd2\xdb\xed\xf6\xff]")  # test of a register, which holds what the call returned
_COMPARES, _WITH_0 = 0xFFFFFC1F, 0x7100001F  # the same on aarch64: cmp of 32 bits with 0
_WITHIN = 32  # bytes from a function's beginning to that test
_NEAR = 1 << 16  # bytes between libssl's functions
_FARTHEST = 8 << 20  # bytes from the first of those that raise errors in ssl_lib.cc to the last
_MOST_CANDIDATES = 4096
_POINTER = 8
_LONGEST_GET_ERROR, _LONGEST_FREE = 1536, 96


class UnnamedFunctions:
    """The functions of one image by name: `functions`, and of the others in `missing` why they weren't taken. Unplannable, or
    ElfError, from the constructor where nothing can be found."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._errors = errors_of(image)
        self._lib = self._errors.of(_LIB)
        self.functions: dict[str, Function] = {}
        self.missing: dict[str, str] = {}
        self._state: tuple[int, ...] = ()
        self._within: Range = (0, 0)
        self._destroying: dict[Range, bool] = {}
        self._side = ChosenSide(image, self._errors, self._callers)
        self._find()
        self.labels = self._under_way()
        """Paths from a connection to labels, as labels() of a stack has them."""
        self.server = self._side.bit()
        """Where a connection shows that it is a server's: "server" and "server_bits", as connection() of a stack has them."""

    def _find(self) -> None:
        if not self._lib:
            raise Unplannable("no function raises errors in ssl_lib.cc")
        self._within = self._side.within = min(self._lib)[0] - _NEAR, max(self._lib)[1] + _NEAR
        self._take("ERR_put_error", lambda: self._image.functions_at([self._errors.put_error]))
        self._take("SSL_get_error", self._get_error)
        if "SSL_get_error" not in self.functions:
            raise Unplannable(f"SSL_get_error isn't found: {self.missing['SSL_get_error']}")
        self._take("ERR_peek_error", lambda: self._image.functions_at(self._asked_first()))
        self._take("BIO_should_read", lambda: self._image.functions_at(self._asks_bio()[:1]))
        self._take("SSL_get_rbio", lambda: self._image.functions_at(self._gets_bio(_WANT_READ)))
        self._take("SSL_get_wbio", lambda: self._image.functions_at(self._gets_bio(_WANT_WRITE)))
        finders: dict[str, Callable[[], Collection[Range]]] = {
            "SSL_do_handshake": self._do_handshake,
            "SSL_accept": lambda: self._handshaking(SERVER),
            "SSL_connect": lambda: self._handshaking(CLIENT),
            "SSL_write": lambda: self._raising({_UNINITIALIZED, _HANDSHAKE_FAILURE, _NOT_CALLED}),
            "SSL_shutdown": lambda: self._raising({_UNINITIALIZED, _IN_INIT}),
            "SSL_read": self._read,
            "SSL_free": self._free,
            "BIO_read": lambda: self._transfers(_WANT_READ),
            "BIO_write": lambda: self._transfers(_WANT_WRITE),
            "EVP_DigestSign": self._digest_sign,
            "RSA_decrypt": self._rsa_decrypt,
        }
        for name, find in finders.items():
            self._take(name, find)

    def _take(self, name: str, find: Callable[[], Collection[Range]]) -> None:
        """Takes the one function that is found."""
        try:
            start, end = the_one(find)
        except (Unplannable, ElfError) as reason:
            self._miss(name, str(reason))
            return
        same = next((other for other, function in self.functions.items() if function.address == start), "")
        if same:
            del self.functions[same]
            self._miss(same, f"it can't be told from {name}")
            self._miss(name, f"it can't be told from {same}")
        else:
            self.functions[name] = Function(name, start, end - start, FOUND)

    def _miss(self, name: str, why: str) -> None:
        if name in NAMES:
            self.missing[name] = why

    def _bounds(self, name: str) -> Range:
        """Those of a function that has been found. Unplannable for another."""
        if name not in self.functions:
            raise Unplannable(f"it is found by {name}, which isn't found")
        function = self.functions[name]
        return function.address, function.address + function.size

    def _raising(self, reasons: Collection[int]) -> list[Range]:
        """Those in ssl_lib.cc that raise all of these."""
        return [function for function, raised in self._lib.items() if raised >= set(reasons)]

    def _callers(self, function: Range) -> set[Range]:
        """The functions among libssl's that call it directly, or end in it; not itself."""
        sites = calls_to(self._image, {function[0]}, self._within)[function[0]]
        callers = {bounds for site in sites if (bounds := self._image.function_bounds(site)) and bounds != function}
        return {bounds for bounds in callers if any(call.target == function[0] for call in self._errors.calls(bounds))}

    def _follow(
        self, function: Range, arguments: dict[str, Value], fields: dict[tuple[int, ...], int] | None = None
    ) -> Evaluation:
        return followed_in(self._image, function[0], Assumptions({"rdi": _CONNECTION, **arguments}, fields or {}))

    # What a call waits for.

    def _get_error(self) -> list[Range]:
        """Of the functions that lie among those of ssl_lib.cc the one that returns 0 for a call that succeeded, and for others
        what a field behind a pointer holds."""
        if self._within[1] - self._within[0] > _FARTHEST:
            raise Unplannable("the functions of ssl_lib.cc lie too far apart")
        candidates = set()
        for start, code in self._image.code_pieces(_WITHIN, self._within):
            for place in self._tests(code):
                bounds = self._image.function_bounds(start + place)
                if bounds and start + place - bounds[0] < _WITHIN and bounds[1] - bounds[0] < _LONGEST_GET_ERROR:
                    candidates.add(bounds)
        if len(candidates) > _MOST_CANDIDATES:
            raise Unplannable("too many functions look like SSL_get_error")
        return [function for function in sorted(candidates) if self._returns_codes(function)]

    def _tests(self, code: bytes) -> Iterator[int]:
        """The places in code at which a register is compared with 0."""
        if self._image.machine == "x86-64":
            yield from (match.start() for match in _BEGINS_BY_TEST.finditer(code))
        else:
            words = memoryview(code[: len(code) & ~3]).cast("I")
            yield from (4 * number for number, word in enumerate(words) if word & _COMPARES == _WITH_0)

    def _returns_codes(self, function: Range) -> bool:
        if set(self._follow(function, {"rsi": 1}).results) != {0}:
            return False
        paths = {field.path for field in self._failed(function).fields if len(field.path) == 2 and field.size == 4}
        paths = {path for path in paths if all(self._returns(function, path, code) for code in _ITS_OWN)}
        path = paths.pop() if len(paths) == 1 else ()
        if not path or _ZERO_RETURN not in self._follow(function, {"rsi": 0}, {path: _ZERO_RETURN}).results:
            return False
        self._state = path
        return True

    def _returns(self, function: Range, path: tuple[int, ...], code: int) -> bool:
        results = set(self._failed(function, {path: code}).results)
        return code in results and results <= {code, *_UNLESS_ERROR}

    def _failed(self, function: Range, fields: dict[tuple[int, ...], int] | None = None) -> Evaluation:
        """SSL_get_error of a call that returned -1."""
        return self._follow(function, {"rsi": MASK}, fields)

    def _asked_first(self) -> set[int]:
        """The one that SSL_get_error calls where the field alone tells what a call waits for: whether there is an error."""
        calls = self._failed(self._bounds("SSL_get_error"), {self._state: _ITS_OWN[0]}).calls
        return {call.target for call in calls if isinstance(call.target, int)}

    # Handshakes.

    def _do_handshake(self) -> list[Range]:
        """Of the functions that only look whether there is a side, the one that doesn't choose it."""
        return [function for function in self._needing_a_side() if not self._side.of(function)]

    def _needing_a_side(self) -> list[Range]:
        others = {_NOT_CALLED, None}
        return [function for function, raised in self._lib.items() if raised - others == {_CONNECTION_TYPE_NOT_SET}]

    def _handshaking(self, file: str) -> set[Range]:
        """The functions that choose this side and shake hands, by SSL_do_handshake or a copy of it."""
        begun = self._bounds("SSL_do_handshake")
        candidates = {*self._needing_a_side(), *self._callers(begun)} - {begun}
        return {function for function in candidates if self._side.of(function) == {file}}

    def _under_way(self) -> dict[str, FieldPath]:
        """The pointer beside what a call waits for that SSL_do_handshake follows: to the data of a handshake, NULL once it is
        over."""
        if "SSL_do_handshake" not in self.functions:
            return {}
        read = self._follow(self._bounds("SSL_do_handshake"), {}).fields
        followed = {field.path[:2] for field in read if len(field.path) > 2}
        pointers = {
            field.path
            for field in read
            if field.path in followed and field.size == _POINTER and field.path[0] == self._state[0]
        }
        return {"in_init": FieldPath(pointers.pop(), _POINTER)} if len(pointers) == 1 else {}

    # Reads.

    def _read(self) -> list[Range]:
        """The one that calls the function behind SSL_read and SSL_peek and then takes what was read off the connection; or
        that calls SSL_peek, passes its arguments on, and does so."""
        reading = [
            function
            for function, raised in self._lib.items()
            if raised >= {_UNINITIALIZED, _HANDSHAKE_FAILURE} and not raised & {_NOT_CALLED, _IN_INIT}
        ]
        if len(reading) != 1:
            raise Unplannable(f"{len(reading) or 'no'} functions raise the errors of ssl_read_impl, where one is expected")
        callers = [function for function in self._callers(reading[0]) if self._lib.get(function) == {_NOT_CALLED}]
        peeks = [function for function in callers if not self._takes_off(function)]
        passing_on = [
            function
            for peek in peeks
            for function in self._callers(peek)
            if self._passes_on(function, peek) and self._takes_off(function)
        ]
        return [*(function for function in callers if function not in peeks), *passing_on]

    def _takes_off(self, function: Range) -> bool:
        """Whether it changes the structure that SSL points to."""
        state = LoadedField(self._state[:1])
        stores = self._follow(function, {"rsi": _BUFFER}).stores
        return any(place.base == state for place, _ in stores)

    def _passes_on(self, function: Range, callee: Range) -> bool:
        calls = self._follow(function, {"rsi": _BUFFER}).calls
        own = [call.arguments[:2] for call in calls if call.target == callee[0]]
        return bool(own) and all(arguments == (_CONNECTION, _BUFFER) for arguments in own)

    # What frees a connection.

    def _free(self) -> list[Range]:
        """The function that passes its argument on to what destroys a connection, and then to what frees memory, and does
        nothing else. SSL_new calls one of the two where it fails."""
        made = self._raising({_NULL_SSL_CTX})
        if len(made) != 1:
            raise Unplannable(f"{len(made) or 'no'} functions raise the errors of SSL_new, where one is expected")
        called = self._errors.callees(made[0])
        destroying = {function for function in called if self._destroys(function)}
        candidates = {*called, *(caller for function in destroying for caller in self._callers(function))}
        return [function for function in candidates if self._frees(function)]

    def _destroys(self, function: Range) -> bool:
        """Whether it looks at both BIOs, and calls a method of the connection with it."""
        if function not in self._destroying:
            self._destroying[function] = self._looks_at_both(function)
        return self._destroying[function]

    def _looks_at_both(self, function: Range) -> bool:
        followed = self._follow(function, {})
        read = {field.path for field in followed.fields if field.size == _POINTER}
        calls_method = any(
            isinstance(call.target, LoadedField) and len(call.target.path) == 2 and call.arguments[0] == _CONNECTION
            for call in followed.calls
        )
        return calls_method and {self._bio(_WANT_READ), self._bio(_WANT_WRITE)} <= read

    def _frees(self, function: Range) -> bool:
        """Whether all that it calls are the destructor and what that frees memory with, each for the connection."""
        own = {call.target for call in self._errors.calls(function)}
        if function[1] - function[0] > _LONGEST_FREE or len(own) != 2:
            return False
        destructors = [each for each in self._errors.callees(function) if self._destroys(each)]
        if len(destructors) != 1:
            return False
        freed = {(call.target, call.arguments[0]) for call in self._follow(function, {}).calls if call.target in own}
        with_it = {call.target for call in self._errors.calls(destructors[0])}
        return freed == {(target, _CONNECTION) for target in own} and own - {destructors[0][0]} <= with_it

    # BIOs.

    def _waiting(self, code: int) -> list[OutgoingCall]:
        """The calls of SSL_get_error for this code, but for ERR_peek_error."""
        asked = self._bounds("ERR_peek_error")[0]
        calls = self._failed(self._bounds("SSL_get_error"), {self._state: code}).calls
        return [call for call in calls if call.target != asked]

    def _gets_bio(self, code: int) -> set[int]:
        """The functions that it has give it a BIO; none where it takes that itself."""
        return {
            call.target for call in self._waiting(code) if call.arguments[0] == _CONNECTION and isinstance(call.target, int)
        }

    def _asks_bio(self) -> list[int]:
        """Those that it asks what a BIO waits for, in their order."""
        getters = self._gets_bio(_WANT_READ)
        return [
            call.target for call in self._waiting(_WANT_READ) if isinstance(call.target, int) and call.target not in getters
        ]

    def _bio(self, code: int) -> tuple[int, ...]:
        """The pointer in SSL to the BIO that it looks at for this code."""
        values = {call.arguments[0] for call in self._waiting(code)}
        values |= {value for getter in self._gets_bio(code) for value in returned(self._image, getter, rdi=_CONNECTION)}
        paths = {value.path for value in values if isinstance(value, LoadedField) and len(value.path) == 1}
        if len(paths) != 1:
            raise Unplannable("SSL_get_error doesn't show where the BIOs lie")
        return paths.pop()

    def _transfers(self, code: int) -> set[Range]:
        """The functions of libcrypto's that libssl's buffers hand this BIO to."""
        bio = LoadedField(self._bio(code))
        buffers = self._errors.of(_BUFFER_FILE)
        calls = (call for function in buffers for call in self._follow(function, {}).calls if call.arguments[0] == bio)
        targets = self._image.functions_at(sorted({call.target for call in calls if isinstance(call.target, int)}))
        return {target for target in targets if _BIO_UNSUPPORTED in self._errors.reasons(target, _BIO_FILE)}

    # The private key.

    def _private_key(self) -> tuple[Range, Range]:
        """The functions that sign and decrypt."""
        return key_functions(self._errors)

    def _digest_sign(self) -> list[Range]:
        signs, _ = self._private_key()
        return [each for each in self._errors.callees(signs) if _KEY_CANT in self._errors.reasons(each, _DIGESTSIGN)]

    def _rsa_decrypt(self) -> list[Range]:
        _, decrypts = self._private_key()
        wanted = {_RSA_TOO_SMALL, _RSA_UNKNOWN_PADDING}
        return [
            each
            for each in self._errors.callees(decrypts)
            if any(self._errors.reasons(each, file) >= wanted for file in _RSA_FILES)
        ]


@dataclass(frozen=True)
class Found:
    """Functions found in an image by name, why others weren't, and where connections show their side and labels."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    server: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, FieldPath] = field(default_factory=dict)


def _look(image: Image) -> Found:
    unnamed = UnnamedFunctions(image)
    return Found(unnamed.functions, unnamed.missing, unnamed.server, unnamed.labels)


_found = FoundOnce(_look, lambda why: Found(missing=dict.fromkeys(NAMES, why)))


def found_in(image: Image) -> Found:
    """Look for them in an image whose symbols name nothing, once."""
    return _found.look_in(image)


def known_of(image: Image) -> Found:
    """Return what has been found in an image; nothing where its symbols tell all, so that nothing was looked for."""
    return _found.known_of(image) or Found()


class BoringSslTables(OpenSslTables):
    """OpenSSL's tables, which BoringSSL has not; and what is known of functions without symbols."""

    def __init__(self, image: Image) -> None:
        super().__init__(image)
        self._found = known_of(image)

    def obstacle(self, operation: Operation) -> str:
        """Return why it couldn't be told from others."""
        why = next((self._found.missing[name] for name in operation.symbols if name in self._found.missing), "")
        return f"it has no symbol, and {why}" if why and self._found.functions else ""

    def may_hold(self, operation: Operation) -> bool:
        """In an image without names, those that BoringSSL has and that nothing looks for."""
        return operation.name in _UNSEARCHED if self._found.functions else super().may_hold(operation)
