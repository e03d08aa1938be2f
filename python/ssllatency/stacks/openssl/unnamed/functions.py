# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL whose symbols were stripped, found by the names that they give with the errors that they raise, and
by what those call, return and store. Each is taken only where exactly one function is what is looked for.

A function is taken by its name where it gives no other. What raises no errors, as SSL_get_error, is told by what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, LoadedField
from ssllatency.elf.image import ElfError, Image, Range
from ssllatency.stacks.openssl.operations import OPERATIONS
from ssllatency.stacks.openssl.unnamed import before_3, since_3
from ssllatency.stacks.openssl.unnamed.before_3 import Before3
from ssllatency.stacks.openssl.unnamed.finder import CONNECTION, MACHINE, SMALL, OpenSslFinder
from ssllatency.stacks.openssl.unnamed.instructions import counts
from ssllatency.stacks.openssl.unnamed.raised_numbers import RaisedNumbers
from ssllatency.stacks.openssl.unnamed.sides import Sides
from ssllatency.stacks.openssl.unnamed.since_3 import Since3
from ssllatency.stacks.openssl.unnamed.sockets import CONTROLS
from ssllatency.stacks.openssl.unnamed.version import version_field
from ssllatency.stacks.openssl.unnamed.waits import READING, WRITING, Waits

NAMES = (
    *("SSL_do_handshake", "SSL_accept", "SSL_connect", "SSL_read", "SSL_write", "SSL_shutdown", "SSL_free", "SSL_get_error"),
    *("SSL_read_ex", "SSL_write_ex", "state_machine", "ossl_statem_fatal"),
    *("EVP_DigestSign", "EVP_PKEY_decrypt", "EVP_PKEY_derive", "EVP_PKEY_derive_set_peer"),
    *("X509_verify_cert", "X509_STORE_CTX_set_ex_data"),
)
"""Those that are looked for and worth telling of where they aren't found, of any release."""
_VERIFYING = ("ssl_verify_cert_chain", "ssl_verify_internal")  # the latter since OpenSSL 3.2
_MAKES = ("SSL_new", "ossl_ssl_connection_new_int")  # a connection: the latter since OpenSSL 3.2
_RAISING = (
    *(name for each in OPERATIONS for name in each.symbols),
    *(f"EVP_PKEY_{name}" for name in ("decrypt", "derive", "derive_set_peer", "public_check")),
    *("X509_verify_cert", CONTROLS),
    *(*_MAKES, MACHINE, "tls_construct_cert_verify", "tls_construct_server_key_exchange"),
    *("ssl_read_internal", "ssl_write_internal", "ssl3_ctrl", "tls1_setup_key_block", "tls13_setup_key_block"),
    *("tls_construct_stoc_server_name", "tls_construct_stoc_alpn", *_VERIFYING),
    *("tls_construct_server_hello", "tls_construct_server_certificate", "ssl_add_cert_to_wpacket"),
    *("tls_process_cert_verify", "tls_process_client_certificate", "ASYNC_WAIT_CTX_set_wait_fd"),
    *since_3.RAISING,
    *before_3.RAISING,
)

_FLAGS = 3  # of ssl_write_internal, since OpenSSL 3.3
MAX_OFFSET = 1 << 16  # in a connection, and in what it points to
_MINUS_1, _FLOW_ERROR = 0xFFFFFFFF, 1


class UnnamedOpenSslFunctions(OpenSslFinder):
    """All of them, looked for by the constructor, which may raise ElfError as well."""

    def __init__(self, image: Image) -> None:
        super().__init__(image, _RAISING)
        self._waits, self._sides = Waits(self), Sides(self)
        self._release = Before3(self, self.raised) if isinstance(self.raised, RaisedNumbers) else Since3(self)
        self.told = (*NAMES, *(before_3.NAMES if self.numbered else since_3.NAMES))
        self._find()

    def _find(self) -> None:
        for name, bounds in self.raised.raising.items():
            self.take(name, partial(list, bounds))
        self.take("SSL_get_error", self._waits.get_error)
        if "SSL_get_error" not in self.functions:
            raise Unplannable(f"SSL_get_error isn't found: {self.missing['SSL_get_error']}")
        finders: dict[str, Callable[[], Collection[Range]]] = {
            "ERR_peek_error": lambda: self.image.functions_at(self._waits.called_for(4) - {self.address("SSL_want")}),
            "SSL_get_rbio": lambda: self.image.functions_at(self._waits.gets_bio(READING)),
            "SSL_get_wbio": lambda: self.image.functions_at(self._waits.gets_bio(WRITING)),
            "BIO_test_flags": self._waits.test_flags,
            "SSL_in_init": lambda: self._asked_by_handshake(1),
            "SSL_in_before": lambda: self._asked_by_handshake(2, {"SSL_in_init": 0}),
        }
        for name, find in finders.items():
            self.take(name, find)
        self._refuse_callers()
        self.take("X509_STORE_CTX_set_ex_data", self._attaching)
        self.offsets["version"] = version_field(self.image, self.within)
        for name, find in self._release.finders().items():
            if name not in self.functions:
                self.take(name, find)
        self._release.refuse()
        first = (self._waits.find_bios, self._waits.find_shutdown, self._sides.find_methods, self._state)
        for find_more in (*first, self._sides.find_sides, self._free, self._exact):
            try:
                find_more()
            except (Unplannable, ElfError):
                continue
        for name in self.told:
            if name not in self.functions:
                self.missing.setdefault(name, "no function is known by its errors, its calls or its results")

    def _attaching(self) -> list[Range]:
        """The function that tells the check of the peer's certificates which connection it is for: the connection, or since
        OpenSSL 3.4 what the application knows it by."""
        checking = {bounds for name in _VERIFYING for bounds in self.raised.raising.get(name, ())}
        calls = [(call.target, call.arguments) for start, _ in checking for call in self.follow(start).calls]
        given = {target for target, (_, _, third, *_) in calls if third == CONNECTION}
        known_by = {
            target
            for target, (first, _, third, *_) in calls
            if isinstance(third, LoadedField) and third.is_pointer and first != CONNECTION
        }
        return self.image.functions_at(sorted(target for target in given or known_by if isinstance(target, int)))

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
            if name in self.functions and callee not in self.called_with_own(self.address(name)):
                del self.functions[name]
                self.miss(name, "what it is called with isn't a connection")
        self.image.name_functions({**self.accessors, **self.functions})

    def _asked_by_handshake(self, number: int, answers: Mapping[str, int] | None = None) -> list[Range]:
        """Of the functions that SSL_do_handshake asks of the connection, where others answer so, the one that looks at so many
        of its fields, and returns the one, or whether both are 0."""
        calls = self.follow(self.known("SSL_do_handshake"), calls=answers).calls
        asked = {call.target for call in calls if call.arguments[0] == CONNECTION and isinstance(call.target, int)}
        small = [each for each in self.image.functions_at(sorted(asked)) if each[1] - each[0] < SMALL]
        return [each for each in small if len(self._looked_at(each[0])) == number and self._only_looks(each[0])]

    def _looked_at(self, address: int) -> set[int]:
        return {found.path[0] for found in self.follow(address).fields if len(found.path) == 1} - {0}

    def _only_looks(self, address: int) -> bool:
        followed = self.follow(address)
        return not followed.calls and not followed.stores

    def _state(self) -> None:
        """The fields of the message flow: that which has the state machine give up at once, or what goes on to it as one side
        where that is built into these, and the other one of the two that SSL_in_before looks at."""
        both = self._looked_at(self.known("SSL_in_before"))
        for starts in ([self.known(MACHINE)], self._sides.starts):
            errors = {each for each in both if starts and all(self._gives_up(start, each) for start in starts)}
            if len(errors) == 1 and len(both) == 2:
                self.offsets["state"] = errors.pop()
                self.offsets["hand_state"] = (both - {self.offsets["state"]}).pop()
                return

    def _gives_up(self, start: int, field: int) -> bool:
        return self.follow(start, fields={(field,): _FLOW_ERROR}).results == [_MINUS_1]

    def _free(self) -> None:
        """The function that SSL_new calls where it fails: it does nothing with NULL, and counts a reference less. In OpenSSL
        1.1.1 what makes a BIO of a connection raises its errors by the same name."""
        making = (bounds for name in _MAKES for bounds in self.raised.raising.get(name, ()))
        called = {call.target for bounds in making for call in self.raised.calls(bounds)}
        self.take("SSL_free", lambda: [each for each in self.image.functions_at(sorted(called)) if self._frees(each[0])])

    def _exact(self) -> None:
        """SSL_read_ex, SSL_write_ex and since OpenSSL 3.3 SSL_write_ex2: they only go on to what reads and writes, SSL_write_ex
        then with flags of its own, as SSL_write does."""
        reads, writes = (self._going_on_to(self.address(name)) for name in ("ssl_read_internal", "ssl_write_internal"))
        self.take("SSL_read_ex", lambda: reads)
        if "SSL_write" not in self.functions:
            raise Unplannable("it is found by SSL_write, which isn't found")
        own, calls = self.address("ssl_write_internal"), self.raised.calls(self.bounds("SSL_write"))
        has_flags = any(call.target == own and call.arguments[_FLAGS] == 0 for call in calls)
        flags = {each: {call.arguments[_FLAGS] for call in self.raised.calls(each)} for each in writes}
        self.take("SSL_write_ex", lambda: [each for each in writes if flags[each] == {0} or not has_flags])
        self.take("SSL_write_ex2", lambda: [each for each in writes if flags[each] == {None} and has_flags])
        if has_flags and "SSL_write_ex" not in self.functions:
            self.take("SSL_write_ex", lambda: self._going_on_to(self.known("SSL_write_ex2")))

    def _going_on_to(self, address: int) -> list[Range]:
        """The functions of libssl that call nothing but this one."""
        sites = calls_to(self.image, {address}, self.within)[address] if address else ()
        callers = {bounds for site in sites if (bounds := self.image.function_bounds(site)) and bounds[0] != address}
        return sorted(each for each in callers if {call.target for call in self.raised.calls(each)} == {address})

    def _frees(self, address: int) -> bool:
        nothing = followed_in(self.image, address, Assumptions({"rdi": 0}))
        does_nothing = not nothing.calls and bool(nothing.results)
        return does_nothing and counts(self.image, address) and bool(self.follow(address).calls)
