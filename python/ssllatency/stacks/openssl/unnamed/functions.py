# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL 3 whose symbols were stripped, found by the names that they give with the errors that they raise, and
by what those call, return and store. Each is taken only where exactly one function is what is looked for.

A function is taken by its name where it gives no other. What raises no errors, as SSL_get_error, is told by what it does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice, permutations

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.returns import returned_address
from ssllatency.code.values import MASK, Assumptions, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.openssl.operations import OPERATIONS
from ssllatency.stacks.openssl.unnamed.raised_names import RaisedNames
from ssllatency.stacks.openssl.unnamed.sockets import CONTROLS
from ssllatency.stacks.openssl.unnamed.version import version_field
from ssllatency.stacks.source_files import references

FOUND = "errors raised"
"""How the functions were found."""
NAMES = (
    *("SSL_do_handshake", "SSL_accept", "SSL_connect", "SSL_read", "SSL_write", "SSL_shutdown", "SSL_free", "SSL_get_error"),
    *("SSL_read_ex", "SSL_write_ex", "state_machine", "ossl_statem_fatal", "ERR_vset_error"),
    *("EVP_DigestSign", "EVP_PKEY_decrypt", "EVP_PKEY_generate", "EVP_PKEY_derive", "EVP_PKEY_derive_set_peer"),
    *("X509_verify_cert", "EVP_PKEY_new_raw_private_key_ex", "X509_STORE_CTX_set_ex_data"),
)
"""Those that are looked for and worth telling of where they aren't found."""
_MACHINE, _SET_DEBUG, _SETS_PEER = "state_machine", "ERR_set_debug", "EVP_PKEY_derive_set_peer_ex"
_MAC_KEY = "EVP_PKEY_new_raw_private_key_ex"
_SIGNING = ("tls_construct_cert_verify", "tls_construct_server_key_exchange")
_COOKIES = ("tls_construct_stoc_cookie", "tls_parse_ctos_cookie")
_VERIFYING = ("ssl_verify_cert_chain", "ssl_verify_internal")  # the latter since OpenSSL 3.2
_MAKES = ("SSL_new", "ossl_ssl_connection_new_int")  # a connection: the latter since OpenSSL 3.2
_RAISING = (
    *(name for each in OPERATIONS for name in each.symbols),
    *(f"EVP_{name}" for name in ("DigestSign", "DigestSignFinal", "DigestVerify", "DigestVerifyFinal", "PKEY_decrypt")),
    _SETS_PEER,
    *(f"EVP_PKEY_{name}" for name in ("generate", "derive", "derive_set_peer", "encapsulate", "decapsulate", "public_check")),
    *("X509_verify_cert", CONTROLS),
    *(*_MAKES, *_SIGNING, _MACHINE),
    *("ssl_read_internal", "ssl_write_internal", "ssl3_ctrl", "tls1_setup_key_block", "tls13_setup_key_block"),
    *("tls_construct_stoc_server_name", "tls_construct_stoc_alpn", *_COOKIES, *_VERIFYING),
)

_FILE_NAME = b"ssl/ssl_lib.c"
_FLAGS = 3  # of ssl_write_internal, since OpenSSL 3.3
_LIBRARY_SSL = 20  # ERR_LIB_SSL
_LIBRARIES = range(2, 128)  # ERR_LIB_*: include/openssl/err.h
_MOST_FUNCTIONS, _MOST_PLACES = 2048, 256
_BESIDE = 1 << 12  # bytes between functions of the state machine's file
MAX_OFFSET = 1 << 16  # in a connection, and in what it points to
MOST_FIELDS = 32  # of which each is tried with each other one: real functions look at fewer than ten
_MOST_TOLD = 64  # functions that hold SSL_get_error's codes: in real files three at most
_NEAR = 1 << 16  # bytes between functions of one source file
_SMALL, _LARGEST = 256, 1536  # bytes of an accessor; of SSL_get_error
_RETURNED = tuple(re.compile(rb"%c\0\0\0|\x6a%c" % (code, code)) for code in (9, 12))  # mov $9, register or push $9
_LOCKED = b"\xf0"  # the prefix of an instruction that counts references
_FIRST_BYTES = 64

_CONNECTION = SymbolicAddress("argument", 0)
_OF_CONNECTION: Mapping[tuple[int, ...], int] = {
    (0,): 0
}  # since 3.2 its type; before, the version, which nothing here asks for
_MINUS_1 = 0xFFFFFFFF
# What SSL_want returns, and what SSL_get_error makes of it where no error is queued: include/openssl/ssl.h.
_NOTHING, _WRITING, _READING = 1, 2, 3
_CODES = {4: 4, 5: 9, 6: 10, 8: 12}
_UNLESS_ERROR = {1, 5, None}
_CLOSED = {6, None}  # SSL_ERROR_ZERO_RETURN, or what isn't known
_RECEIVED_SHUTDOWN, _FLOW_ERROR = 2, 1
# SSL_METHOD of ssl/ssl_local.h: version, flags and mask come first.
_METHOD_NAMES = {0x10000: "TLS", 0x1FFFF: "DTLS"}  # of any version; those of one version lead to the same functions
_FIRST_SLOT, _MOST_SLOTS, _MOST_FLAGS, _POINTER = 16, 10, 3, 8

_Fields = Mapping[tuple[int, ...], int]


class UnnamedOpenSslFunctions:
    """The functions of one image by name: `functions`, those that do what accessors do in `accessors`, and of the others in
    `missing` why they weren't taken; `offsets` of what a connection shows, as connection() of a stack has them. Unplannable, or
    ElfError, from the constructor where nothing can be found."""

    def __init__(self, image: Image) -> None:
        if image.machine != "x86-64":
            raise Unplannable(f"errors that are raised are read in x86-64 code only, not in {image.machine} code")
        if not all(any(True for _ in image.find_string(text)) for text in (_FILE_NAME, _MACHINE.encode())):
            raise Unplannable("no text in it names OpenSSL's source and the function that all handshakes go through")
        self._image = image
        self._raised = RaisedNames(image, dict.fromkeys(_RAISING), _MACHINE)
        self._followed: dict[int, Evaluation] = {}
        self.functions: dict[str, Function] = {}
        self.accessors: dict[str, Function] = {}
        self.missing: dict[str, str] = {}
        self.offsets: dict[str, int] = {}
        self._tells = 0  # where the function begins that tells what a call waits for: SSL_get_error, or what that goes on to
        self._wanted: tuple[int, ...] = ()
        self._slots: tuple[int, int] = (0, 0)
        self._find()

    def _find(self) -> None:
        for name, bounds in self._raised.raising.items():
            self.take(name, partial(list, bounds))
        self.take("SSL_get_error", self._get_error)
        if "SSL_get_error" not in self.functions:
            raise Unplannable(f"SSL_get_error isn't found: {self.missing['SSL_get_error']}")
        finders: dict[str, Callable[[], Collection[Range]]] = {
            _SET_DEBUG: lambda: self._image.functions_at([self._raised.set_debug]),
            "ERR_set_error": self._set_error,
            "ERR_vset_error": self._vset_error,
            "ERR_peek_error": lambda: self._image.functions_at(self._called_for(4) - {self.address("SSL_want")}),
            "SSL_get_rbio": lambda: self._image.functions_at(self._gets_bio(_READING)),
            "SSL_get_wbio": lambda: self._image.functions_at(self._gets_bio(_WRITING)),
            "BIO_test_flags": self._test_flags,
            "SSL_in_init": lambda: self._asked_by_handshake(1),
            "SSL_in_before": lambda: self._asked_by_handshake(2),
        }
        for name, find in finders.items():
            self.take(name, find)
        self._refuse_callers()
        self.take(_MAC_KEY, self._mac_key)
        self.take("X509_STORE_CTX_set_ex_data", self._attaching)
        self.take("EVP_PKEY_derive_set_peer", lambda: self._passing_on(self.known(_SETS_PEER)))
        self.offsets["version"] = version_field(self._image, self._within)
        if "EVP_DigestSign" not in self.functions:
            self.take("EVP_DigestSign", self._digest_sign)
        steps = (self._bios, self._shutdown, self._state, self._methods, self._sides, self._free, self._exact, self._fatal)
        for find_more in steps:
            try:
                find_more()
            except (Unplannable, ElfError):
                continue
        for name in NAMES:
            if name not in self.functions:
                self.missing.setdefault(name, "no function is known by its errors, its calls or its results")

    def take(self, name: str, find: Callable[[], Collection[Range]]) -> None:
        """Takes the one function that is found."""
        try:
            found = sorted(set(find()))
        except (Unplannable, ElfError) as reason:
            self._miss(name, str(reason))
            return
        if len(found) != 1:
            self._miss(name, f"{len(found) or 'no'} functions may be it, where one is expected")
            return
        ((start, end),) = found
        if any(function.address == start for function in self.functions.values()):
            self._miss(name, "it can't be told from another")
            return
        self.missing.pop(name, None)
        self.functions[name] = Function(name, start, end - start, FOUND)
        self._image.name_functions({**self.accessors, **self.functions})

    def name_accessor(self, name: str, bounds: Range | None) -> None:
        """Gives a function the name of an accessor, unless that is known. It is only read, so it may be another that does the
        same."""
        if bounds and name not in self.functions:
            self.accessors[name] = Function(name, bounds[0], bounds[1] - bounds[0], FOUND)
            self._image.name_functions({**self.accessors, **self.functions})

    def _miss(self, name: str, why: str) -> None:
        if name in NAMES:
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
        fields: _Fields | None = None,
        calls: Mapping[str, int] | None = None,
    ) -> Evaluation:
        """Follow the function for a connection."""
        if not (arguments or fields or calls):
            return self._plain(address)
        case = Assumptions({"rdi": _CONNECTION, **(arguments or {})}, {**_OF_CONNECTION, **(fields or {})}, dict(calls or {}))
        return followed_in(self._image, address, case)

    def _plain(self, address: int) -> Evaluation:
        """Follow it where nothing more is known."""
        if address not in self._followed:
            case = Assumptions({"rdi": _CONNECTION}, _OF_CONNECTION)
            self._followed[address] = followed_in(self._image, address, case)
        return self._followed[address]

    # What raises errors.

    def _set_error(self) -> list[Range]:
        """The one that is called most with a library's number, a reason and no text."""
        votes = Counter(
            call.target
            for function in self._raised.holding
            for call in self._raised.calls(function)
            if call.arguments[0] in _LIBRARIES and call.arguments[1] and call.arguments[2] == 0
        )
        most = max(votes.values(), default=0)  # not most_common(), which imports a module: a confined reader may not
        return self._image.functions_at([target for target, number in votes.items() if number == most])

    def _vset_error(self) -> list[Range]:
        """The function that ERR_set_error passes its first argument on to."""
        return self._image.functions_at(sorted(self._called_with_own(self.known("ERR_set_error"))))

    def _digest_sign(self) -> list[Range]:
        """The function that both of libssl's that sign ask how long a signature will be, with NULL, and then for it."""
        asked = []
        for name in _SIGNING:
            function = self.functions.get(name)
            if function is None:
                raise Unplannable(f"it is found by {name}, which isn't found")
            calls = self._raised.calls((function.address, function.address + function.size))
            buffers = {call.target: {each.arguments[1] for each in calls if each.target == call.target} for call in calls}
            asked.append({target for target, given in buffers.items() if given == {0, None}})
        return self._image.functions_at(sorted(set.intersection(*asked)))

    def _mac_key(self) -> list[Range]:
        """The function that makes the keys with which cookies are authenticated: what is made with these is no signature."""
        called = (
            call.target
            for name in _COOKIES
            if name in self.functions
            for call in self._raised.calls(self._bounds(name))
            if call.arguments[1] and self._image.text(call.arguments[1]) == "HMAC"
        )
        return self._image.functions_at(sorted(set(called)))

    def _attaching(self) -> list[Range]:
        """The function that tells the check of the peer's certificates which connection it is for: the connection, or since
        OpenSSL 3.4 what the application knows it by."""
        checking = {bounds for name in _VERIFYING for bounds in self._raised.raising.get(name, ())}
        calls = [(call.target, call.arguments) for start, _ in checking for call in self.follow(start).calls]
        given = {target for target, (_, _, third, *_) in calls if third == _CONNECTION}
        known_by = {
            target for target, (first, _, third, *_) in calls if isinstance(third, LoadedField) and first != _CONNECTION
        }
        return self._image.functions_at(sorted(target for target in given or known_by if isinstance(target, int)))

    def _bounds(self, name: str) -> Range:
        function = self.functions[name]
        return function.address, function.address + function.size

    # What a call waits for.

    @cached_property
    def _within(self) -> Range:
        """The range of the functions around those of ssl_lib.c."""
        named = [self.address(name) for name in ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown")]
        known = sorted(filter(None, named))
        if not known or known[-1] - known[0] > 4 * _NEAR:
            raise Unplannable("the functions of ssl_lib.c aren't found in one place")
        return max(0, known[0] - _NEAR), known[-1] + _NEAR

    @cached_property
    def libssl(self) -> list[Range]:
        """The functions there, and those of the state machine's file."""
        functions = list(islice(self._functions_in(*self._within), _MOST_FUNCTIONS))
        machine = self.address(_MACHINE)
        around = self._functions_in(max(0, machine - _BESIDE), machine) if machine else ()
        return sorted({*functions, *islice(around, _MOST_FUNCTIONS)})

    def _functions_in(self, start: int, end: int) -> Iterator[Range]:
        at = start
        while at < end:
            bounds = self._image.function_bounds(at)
            if bounds and bounds[0] >= start and bounds[1] > bounds[0]:
                yield bounds
            at = bounds[1] if bounds and bounds[1] > at else at + 1 if at % 16 else at + 16

    def _get_error(self) -> list[Range]:
        """The one that returns 0 for a call that succeeded, and for others what SSL_want's codes mean."""
        candidates = [
            function for function in self.libssl if function[1] - function[0] < _LARGEST and self._holds_codes(function)
        ]
        if len(candidates) > _MOST_TOLD:
            raise Unplannable("too many functions look like SSL_get_error")
        telling = [function for function in candidates if self._returns_codes(function)]
        if len(telling) != 1:
            return telling
        ((self._tells, _),) = telling
        return self._passing_on(self._tells) or telling

    def _passing_on(self, address: int) -> list[Range]:
        """The functions of the same source file that only go on to this one with a 1 more: SSL_get_error since OpenSSL 3.3, and
        what has a peer's key checked."""
        sites = calls_to(self._image, {address}, (max(0, address - _NEAR), address + _NEAR))[address]
        callers = {bounds for site in sites if (bounds := self._image.function_bounds(site)) and bounds[0] != address}
        called = {each: {(call.target, call.arguments[2]) for call in self._raised.calls(each)} for each in callers}
        return [each for each, targets in called.items() if targets == {(address, 1)}]

    def _holds_codes(self, function: Range) -> bool:
        """Whether it has two of the codes that only few functions have."""
        code = self._image.code(function[0], function[1] - function[0])
        return all(returned.search(code) for returned in _RETURNED)

    def _returns_codes(self, function: Range) -> bool:
        if set(self.follow(function[0], {"rsi": 1, "rdx": 1}).results) != {0}:
            return False
        failed = self._failed(function[0])
        callees = {call.target for call in failed.calls if call.arguments[0] == _CONNECTION and isinstance(call.target, int)}
        for callee in sorted(callees):
            bounds = self._image.function_bounds(callee)
            path = self._one_field(callee, 4)
            if not path or not bounds or bounds[0] != callee:
                continue
            want = Function("SSL_want", callee, bounds[1] - callee, FOUND)
            self._image.name_functions({**self.functions, "SSL_want": want})
            if all(self._returns(function[0], code, calls={"SSL_want": code}) for code in _CODES):
                self.functions["SSL_want"], self._wanted = want, path
                self.offsets["rwstate"] = path[0]
                return True
        self._image.name_functions(self.functions)
        for path in {found.path for found in failed.fields if len(found.path) == 1 and found.size == 4 and any(found.path)}:
            if all(self._returns(function[0], code, fields={path: code}) for code in _CODES):
                self._wanted, self.offsets["rwstate"] = path, path[0]
                return True
        return False

    def _failed(self, address: int, fields: _Fields | None = None, calls: Mapping[str, int] | None = None) -> Evaluation:
        """SSL_get_error of a call that returned -1."""
        return self.follow(address, {"rsi": MASK, "rdx": 1}, fields, calls)

    def _returns(self, address: int, code: int, fields: _Fields | None = None, calls: Mapping[str, int] | None = None) -> bool:
        results = set(self._failed(address, fields, calls).results)
        return _CODES[code] in results and results <= {_CODES[code], *_UNLESS_ERROR}

    def _one_field(self, address: int, size: int) -> tuple[int, ...]:
        """The one field of a connection that a small function returns, if not a number; empty where that isn't so."""
        results = {value for value in self.follow(address).results if not isinstance(value, int)}
        found = results.pop() if len(results) == 1 else None
        known = isinstance(found, LoadedField) and found.size == size and found.whole and len(found.path) == 1
        return found.path if known and isinstance(found, LoadedField) else ()

    def _case(self, code: int) -> tuple[_Fields, Mapping[str, int]]:
        """The assumption that this is what the connection waits for, and that no error is queued."""
        calls = {name: value for name, value in (("SSL_want", code), ("ERR_peek_error", 0)) if name in self.functions}
        return {self._wanted: code}, calls

    def _called_for(self, code: int) -> set[int]:
        calls = self._failed(self._tells, *self._case(code)).calls
        return {call.target for call in calls if isinstance(call.target, int)}

    def _gets_bio(self, code: int) -> set[int]:
        calls = self._failed(self._tells, *self._case(code)).calls
        others = {self.address("SSL_want"), self.address("ERR_peek_error")}
        return {
            call.target
            for call in calls
            if call.arguments[0] == _CONNECTION and isinstance(call.target, int) and call.target not in others
        }

    def _bios(self) -> None:
        """The fields of the BIOs, where SSL_get_error takes them itself and asks BIO_test_flags of them."""
        for name, code in (("rbio", _READING), ("wbio", _WRITING)):
            calls = self._failed(self._tells, *self._case(code)).calls
            asked = {call.arguments[0] for call in calls if call.target == self.known("BIO_test_flags")}
            paths = {each.path for each in asked if isinstance(each, LoadedField) and each.is_pointer and len(each.path) == 1}
            if len(paths) == 1:
                self.offsets[name] = paths.pop()[0]

    def _test_flags(self) -> list[Range]:
        """The function that is asked of a BIO whether it should be read."""
        calls = self._failed(self._tells, *self._case(_READING)).calls
        asked = {call.target for call in calls if call.arguments[1] == 1 and isinstance(call.target, int)}
        return self._image.functions_at(asked)

    def _shutdown(self) -> None:
        """The field that together with the last alert tells SSL_get_error that the peer has closed. Newer compilers add a carry
        to SSL_ERROR_SYSCALL for that, which isn't followed: then what is returned isn't known."""
        address, (fields, calls) = self._tells, self._case(_NOTHING)
        read = self.follow(address, {"rsi": 0, "rdx": 1}, fields, calls).fields
        paths = {found.path for found in read if len(found.path) == 1} - {self._wanted, (0,)}
        if len(paths) > MOST_FIELDS:
            raise Unplannable("SSL_get_error looks at too many fields")
        closed = {
            one
            for one, other in permutations(sorted(paths), 2)
            if self._closed(address, {**fields, one: _RECEIVED_SHUTDOWN, other: 0}, calls)
            and not self._closed(address, {**fields, one: 0, other: 0}, calls)
        }
        if len(closed) == 1:
            self.offsets["shutdown"] = closed.pop()[0]

    def _closed(self, address: int, fields: _Fields, calls: Mapping[str, int]) -> bool:
        return not _CLOSED.isdisjoint(self.follow(address, {"rsi": 0, "rdx": 1}, fields, calls).results)

    # Handshakes.

    def _refuse_callers(self) -> None:
        """Refuses what only has a function built into it, as an application has where it is compiled as one with OpenSSL: it
        gives that name alone, too, but what it is called with is no connection. Unplannable where that is SSL_do_handshake."""
        for name in ("SSL_in_init", "SSL_in_before"):
            if name not in self.functions:
                raise Unplannable(f"SSL_do_handshake doesn't ask {name} of what it is called with")
        own = {
            "SSL_read": self.address("ssl_read_internal"),
            "SSL_write": self.address("ssl_write_internal"),
            "SSL_shutdown": self.address("SSL_in_init"),
        }
        for name, callee in own.items():
            if name in self.functions and callee not in self._called_with_own(self.address(name)):
                del self.functions[name]
                self._miss(name, "what it is called with isn't a connection")
        self._image.name_functions({**self.accessors, **self.functions})

    def _asked_by_handshake(self, number: int) -> list[Range]:
        """Of the functions that SSL_do_handshake asks of the connection the one that looks at so many of its fields, and
        returns the one, or whether both are 0."""
        calls = self.follow(self.known("SSL_do_handshake")).calls
        asked = {call.target for call in calls if call.arguments[0] == _CONNECTION and isinstance(call.target, int)}
        small = [each for each in self._image.functions_at(sorted(asked)) if each[1] - each[0] < _SMALL]
        return [each for each in small if len(self._looked_at(each[0])) == number and self._only_looks(each[0])]

    def _looked_at(self, address: int) -> set[int]:
        return {found.path[0] for found in self.follow(address).fields if len(found.path) == 1} - {0}

    def _only_looks(self, address: int) -> bool:
        followed = self.follow(address)
        return not followed.calls and not followed.stores

    def _state(self) -> None:
        """The fields of the message flow: that which has the state machine give up at once, and the other one of the two that
        SSL_in_before looks at."""
        both = self._looked_at(self.known("SSL_in_before"))
        machine = self.known(_MACHINE)
        errors = {each for each in both if self.follow(machine, fields={(each,): _FLOW_ERROR}).results == [_MINUS_1]}
        if len(errors) == 1 and len(both) == 2:
            self.offsets["state"] = errors.pop()
            self.offsets["hand_state"] = (both - {self.offsets["state"]}).pop()

    def _methods(self) -> None:
        """The functions that return the tables of methods which lead to the state machine."""
        machine = self.known(_MACHINE)
        sites = calls_to(self._image, {machine}, (max(0, machine - _NEAR), machine + _NEAR))[machine]
        sides: dict[int, int] = {}
        for start, _ in {bounds for site in sites if (bounds := self._image.function_bounds(site))}:
            for call in self.follow(start).calls:
                if call.target == machine and call.arguments[0] == _CONNECTION and call.arguments[1] in (0, 1):
                    sides[start] = int(call.arguments[1] == 1)
        accepts, connects = ([start for start, server in sides.items() if server == side] for side in (1, 0))
        if len(accepts) != 1 or len(connects) != 1:
            raise Unplannable("the functions for accepting and connecting aren't found")
        tables: dict[int, set[int]] = {}
        for side in (*accepts, *connects):
            for place in self._image.pointers_to(side)[:_MOST_PLACES]:
                if base := self._begins(place):
                    tables.setdefault(base, set()).add(place - base)
        offsets = sorted({offset for found in tables.values() for offset in found})
        if len(offsets) != 2 or offsets[1] - offsets[0] != _POINTER:
            raise Unplannable("the tables of methods differ")
        self._slots = offsets[0], offsets[1]
        self._name_tables(tables)

    def _begins(self, place: int) -> int:
        """Return where the table of methods begins that holds the word at `place`; 0 for none."""
        for number in range(_MOST_SLOTS):
            base = place - _FIRST_SLOT - number * _POINTER
            version, flags = (self._image.constant(base + offset, 4) for offset in (0, 4))
            slots = [self._image.pointer(base + _FIRST_SLOT + each * _POINTER) or 0 for each in range(number)]
            if version in _METHOD_NAMES and (flags or 0) <= _MOST_FLAGS and all(map(self._image.executable, slots)):
                return base
        return 0

    def _name_tables(self, tables: Mapping[int, set[int]]) -> None:
        sides = {frozenset(self._slots): "method", frozenset(self._slots[:1]): "server_method"}
        found: dict[str, list[Range]] = {}
        for place, table in islice(references(self._image, tables), _MOST_PLACES):
            bounds = self._image.function_bounds(place)
            if bounds and bounds[1] - bounds[0] < _SMALL and returned_address(self._image, bounds[0]) == table:
                protocol = _METHOD_NAMES[self._image.constant(table, 4) or 0]
                side = sides.get(frozenset(tables[table]), "client_method")
                found.setdefault(f"{protocol}_{side}", []).append(bounds)
        for name, returning in found.items():
            self.take(name, partial(list, returning))

    def _sides(self) -> None:
        """SSL_set_accept_state and SSL_set_connect_state, by the slots that they store; and SSL_accept and SSL_connect, which
        call them and shake hands."""
        shakes = self.known("SSL_do_handshake")
        for slot, name, calls, number in (
            (self._slots[0], "SSL_set_accept_state", "SSL_accept", 1),
            (self._slots[1], "SSL_set_connect_state", "SSL_connect", 0),
        ):
            self.take(name, partial(self._storing, slot))
            if name not in self.functions:
                continue
            stores = self.follow(self.address(name)).stores
            told = {place.offset for place, value in stores if place.base == "argument" and value == number}
            if number and len(told) == 1:
                self.offsets["server"] = told.pop()
            both = {self.address(name), shakes}
            sites = calls_to(self._image, both, self._within)
            callers = {self._image.function_bounds(site) for site in sites[self.address(name)]}
            self.take(calls, partial(self._only_calling, callers, both))

    @cached_property
    def small(self) -> list[Range]:
        """Those of libssl that may be accessors."""
        return [each for each in self.libssl if each[1] - each[0] < _SMALL]

    def _storing(self, slot: int) -> list[Range]:
        return [each for each in self.small if self._stores(each[0], slot)]

    def _stores(self, address: int, slot: int) -> bool:
        if bytes([slot]) not in self._image.code(address, _SMALL):
            return False
        return any(
            isinstance(value, LoadedField) and len(value.path) == 2 and value.path[1] == slot and place.base == "argument"
            for place, value in self.follow(address).stores
        )

    def _only_calling(self, functions: Collection[Range | None], targets: Collection[int]) -> list[Range]:
        """Those that of a connection which isn't QUIC's call these functions and no others."""
        return [each for each in functions if each and self._calls_of_plain(each) == targets]

    def _calls_of_plain(self, function: Range) -> set[int]:
        own = {call.target for call in self._raised.calls(function)}
        return {call.target for call in self.follow(function[0]).calls if isinstance(call.target, int)} & own

    def _called_with_own(self, address: int) -> set[int]:
        """The functions that it passes its first argument on to."""
        calls = self.follow(address).calls
        return {call.target for call in calls if call.arguments[0] == _CONNECTION and isinstance(call.target, int)}

    def _free(self) -> None:
        """The function that SSL_new calls where it fails: it does nothing with NULL, and counts a reference less."""
        made = [name for name in _MAKES if name in self.functions]
        called = {call.target for name in made for call in self._raised.calls(self._bounds(name))}
        self.take("SSL_free", lambda: [each for each in self._image.functions_at(sorted(called)) if self._frees(each[0])])

    def _exact(self) -> None:
        """SSL_read_ex, SSL_write_ex and since OpenSSL 3.3 SSL_write_ex2: they only go on to what reads and writes, SSL_write_ex
        then with flags of its own, as SSL_write does."""
        reads, writes = (self._going_on_to(self.address(name)) for name in ("ssl_read_internal", "ssl_write_internal"))
        self.take("SSL_read_ex", lambda: reads)
        if "SSL_write" not in self.functions:
            raise Unplannable("it is found by SSL_write, which isn't found")
        own, calls = self.address("ssl_write_internal"), self._raised.calls(self._bounds("SSL_write"))
        has_flags = any(call.target == own and call.arguments[_FLAGS] == 0 for call in calls)
        flags = {each: {call.arguments[_FLAGS] for call in self._raised.calls(each)} for each in writes}
        self.take("SSL_write_ex", lambda: [each for each in writes if flags[each] == {0} or not has_flags])
        self.take("SSL_write_ex2", lambda: [each for each in writes if flags[each] == {None} and has_flags])
        if has_flags and "SSL_write_ex" not in self.functions:
            self.take("SSL_write_ex", lambda: self._going_on_to(self.known("SSL_write_ex2")))

    def _going_on_to(self, address: int) -> list[Range]:
        """The functions of libssl that call nothing but this one."""
        sites = calls_to(self._image, {address}, self._within)[address] if address else ()
        callers = {bounds for site in sites if (bounds := self._image.function_bounds(site)) and bounds[0] != address}
        return sorted(each for each in callers if {call.target for call in self._raised.calls(each)} == {address})

    def _fatal(self) -> None:
        """The function that raises an error of libssl's and ends the handshake: others are called with an alert, a reason and
        no text, and pass them on, but not as libssl's."""
        raises = self.known("ERR_vset_error")
        called = {
            call.target
            for function in self._raised.holding
            for call in self._raised.calls(function)
            if call.arguments[1] is not None and call.arguments[2] and call.arguments[3] == 0
        }
        passing = {
            each: {call.arguments[0] for call in self._raised.calls(each) if call.target == raises}
            for each in self._image.functions_at(sorted(called))
        }
        self.take("ossl_statem_fatal", lambda: [each for each, libraries in passing.items() if libraries == {_LIBRARY_SSL}])

    def _frees(self, address: int) -> bool:
        nothing = followed_in(self._image, address, Assumptions({"rdi": 0}))
        counts = _LOCKED in self._image.code(address, _FIRST_BYTES)
        return counts and not nothing.calls and bool(nothing.results) and bool(self.follow(address).calls)
