# SPDX-License-Identifier: Apache-2.0
"""The labels of connections of an OpenSSL without symbols: accessors, named by the fields that they return, and paths that
functions show which raise errors.

A path is taken only where one field alone does what is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice, permutations

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import ARGUMENTS, Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.returns import returned_address
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import ElfError, Image, Range
from ssllatency.stacks.openssl.connection import Accessors, UnclearError
from ssllatency.stacks.openssl.unnamed.certificates import CertificatePaths
from ssllatency.stacks.openssl.unnamed.finder import MOST_FIELDS
from ssllatency.stacks.openssl.unnamed.functions import MAX_OFFSET, UnnamedOpenSslFunctions
from ssllatency.stacks.openssl.unnamed.instructions import loads

_CONNECTION = SymbolicAddress("argument", 0)
_GET_NEGOTIATED_GROUP, _UNKNOWN_COMMAND = 134, 0x7FFF  # of SSL_ctrl: include/openssl/ssl.h
_HOST_NAME, _ANOTHER_KIND = 0, 5
_NOT_SENT = 2  # EXT_RETURN of ssl/ssl_local.h
_TLS_1_2, _TLS_1_3 = 0x303, 0x304
_SMALL, _LARGEST = 32, 4096  # bytes of an accessor of the first word; of SSL_ctrl
_LARGEST_NAME = 512  # of SSL_get_servername
_KEYS = ("tls13_setup_key_block", "tls1_setup_key_block")  # ask for the algorithms of a session's cipher
# The first rows of the tables of ciphers: SSL_CIPHER of ssl/ssl_local.h, "valid" before the name.
_MOST_NAMES = 16  # places of a name that are looked for
_CIPHERS = ((b"TLS_AES_128_GCM_SHA256", 0x03001301), (b"TLS_AES_256_GCM_SHA384", 0x03001302))
_POINTER = 8
CIPHER_NAMES = (8, 16)
"""Where OpenSSL's name and the standard's lie in a row of a table of ciphers."""
# The random bytes of a HelloRetryRequest: RFC 8446, section 4.1.3.
_ASKING_AGAIN = int.from_bytes(bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"), "little")
_SLOTS = range(16, 40 * _POINTER, _POINTER)  # of SSL_METHOD
_ACCESSORS = {
    "SSL_version": "version",
    "SSL_is_server": "server",
    "SSL_get_state": "hand_state",
    "SSL_get_shutdown": "shutdown",
}

_Fields = Mapping[tuple[int, ...], Value]


class UnnamedLabels:
    """The labels of the connections of an image whose functions have been `found`: the accessors that tell them are named
    there; `paths` are those that have none, as labels() of a stack has them."""

    def __init__(self, image: Image, found: UnnamedOpenSslFunctions) -> None:
        self._image, self._found = image, found
        self.paths: dict[str, FieldPath] = {}
        steps = (self._name_accessors, self._name_control, self._name_session, self._resumed, self._server_name)
        for step in (*steps, self._protocol, self._hello_retry, self._cipher, self._certificates):
            try:
                step()
            except (Unplannable, UnclearError, ElfError):
                continue

    def _follow(self, address: int, arguments: Mapping[str, Value] | None = None, fields: _Fields | None = None) -> Evaluation:
        return self._follow_in(address, Assumptions(arguments or {}, fields or {}))

    def _follow_in(self, address: int, case: Assumptions) -> Evaluation:
        """Follow the function for a plain connection, which since OpenSSL 3.2 begins with a 0 that says so."""
        first: _Fields = {} if self._found.offsets.get("version") == 0 else {(0,): 0}
        arguments, fields = {"rdi": _CONNECTION, **case.arguments}, {**first, **case.fields}
        return followed_in(self._image, address, Assumptions(arguments, fields, case.calls))

    def _name_accessors(self) -> None:
        for name, offset in _ACCESSORS.items():
            if offset in self._found.offsets:
                self._name(name, LoadedField((self._found.offsets[offset],), 4))
        self._name("SSL_get_ssl_method", LoadedField((self._method,)))

    def _name(self, name: str, field: LoadedField) -> None:
        """Names a small function that returns this field of a connection, and does nothing else. It is only read: so where
        functions of other structures return the same, it may be one of these."""
        functions = (each for each in self._found.accessors_around if self._mentions(each, field.path[-1]))
        returning = (each for each in functions if self._returns(each[0], field))
        self._found.name_accessor(name, next(returning, None))

    def _returns(self, address: int, field: LoadedField) -> bool:
        """Whether it returns the field and does nothing else; it may return 0 for NULL, or trap."""
        followed = self._follow(address)
        return {*followed.results} - {0, None} == {field} and not followed.calls and not followed.stores

    def _mentions(self, function: Range, offset: int) -> bool:
        """Whether the code has the number, so that it is worth following."""
        size = function[1] - function[0]
        code = self._image.code(function[0], size)
        if not 0 <= offset < MAX_OFFSET:
            return False
        if not offset:
            return size <= _SMALL
        return loads(self._image.machine, code, offset)

    @cached_property
    def _method(self) -> int:
        """The field of a connection's table of methods: out of it its accepting side is stored."""
        stores = self._follow(self._found.known("SSL_set_accept_state")).stores
        fields = {value.path[0] for _, value in stores if isinstance(value, LoadedField) and len(value.path) == 2}
        if len(fields) != 1:
            raise Unplannable("the table of methods isn't found in a connection")
        return fields.pop()

    def _name_control(self) -> None:
        """SSL_ctrl hands a command that it doesn't know itself to the method for that."""
        control = self._found.known("ssl3_ctrl")
        table = returned_address(self._image, self._found.known("TLS_method")) or 0
        slots = [slot for slot in _SLOTS if self._image.pointer(table + slot) == control]
        if len(slots) != 1:
            raise Unplannable("no one slot of the tables of methods is for commands")
        target = LoadedField((self._method, slots[0]))
        functions = (each for each in self._found.libssl if each[1] - each[0] < _LARGEST)
        mentioning = (each for each in functions if self._mentions(each, target.path[1]))
        self._found.name_accessor("SSL_ctrl", next((each for each in mentioning if self._hands_on(each[0], target)), None))

    def _hands_on(self, address: int, target: LoadedField) -> bool:
        calls = self._follow(address, {"rsi": _UNKNOWN_COMMAND}).calls
        return any(call.target == target and call.arguments[:2] == (_CONNECTION, _UNKNOWN_COMMAND) for call in calls)

    @cached_property
    def _session(self) -> int:
        """The field of the session, in which the group of a handshake before TLS 1.3 is; before OpenSSL 3.0, which doesn't keep
        that, the one pointer that is asked for the algorithms to make keys for."""
        if self._found.numbered:
            asked = [{call.arguments[0] for call in self._follow(self._found.known(name)).calls} for name in _KEYS]
            pointers = {value.path for value in set.intersection(*asked) if isinstance(value, LoadedField) and value.is_pointer}
            if len(pointers) != 1 or len(min(pointers)) != 1:
                raise Unplannable("no one pointer is asked for the algorithms of a session")
            return pointers.pop()[0]
        calls = Accessors(self._image).control(_GET_NEGOTIATED_GROUP).calls
        groups = {call.arguments[0] for call in calls}
        sessions = {group.path[0] for group in groups if isinstance(group, LoadedField) and len(group.path) == 2}
        if len(sessions) != 1:
            raise Unplannable("no one field leads to a handshake's group")
        return sessions.pop()

    def _name_session(self) -> None:
        self._name("SSL_get_session", LoadedField((self._session,)))

    def _resumed(self) -> None:
        """The number with which a server doesn't answer to a client's name before TLS 1.3, though it has one."""
        address = self._found.known("tls_construct_stoc_server_name")
        version = (self._method, 0)
        numbers = sorted({found.path for found in self._follow(address).fields if len(found.path) == 1 and found.size == 4})

        if len(numbers) > MOST_FIELDS:
            raise Unplannable("what answers to a name looks at too many numbers")

        def answers(fields: _Fields) -> bool:
            return set(self._follow(address, fields=fields).results) != {_NOT_SENT}

        fields = [
            one
            for one, done in permutations(numbers, 2)
            if answers({one: 0, done: 1, version: _TLS_1_2})
            and not answers({one: 1, done: 1, version: _TLS_1_2})
            and answers({one: 1, done: 1, version: _TLS_1_3})
            and not answers({one: 0, done: 0, version: _TLS_1_2})
        ]
        if len(fields) != 1:
            raise Unplannable("no one number tells that a session was resumed")
        self.paths["resumed"] = FieldPath(fields[0], 4)
        self._name("SSL_session_reused", LoadedField(fields[0], 4))

    def _server_name(self) -> None:
        """SSL_get_servername returns nothing but for names of hosts, and of a server whose session is new one pointer."""
        server, resumed = self._found.offsets.get("server"), self.paths.get("resumed")
        if server is None or resumed is None:
            raise Unplannable("it is found by which side a connection is and by whether its session is new")
        fields = {(server,): 1, resumed.offsets: 0}
        functions = (each for each in self._found.libssl if each[1] - each[0] < _LARGEST_NAME)
        mentioning = (each for each in functions if all(self._mentions(each, offset) for offset, *_ in fields))
        named = [each for each in mentioning if self._returns_names(each[0], fields)]
        self._found.name_accessor("SSL_get_servername", named[0] if len(named) == 1 else None)

    def _returns_names(self, address: int, fields: _Fields) -> bool:
        if set(self._follow(address, {"rsi": _ANOTHER_KIND}).results) != {0}:
            return False
        case = Assumptions({"rsi": _HOST_NAME}, fields, {"SSL_in_before": 0})
        returned = {value for value in self._follow_in(address, case).results if value not in (0, _CONNECTION)}
        return len(returned) == 1 and all(isinstance(value, LoadedField) and value.is_pointer for value in returned)

    def _protocol(self) -> None:
        """The text and its length that a server answers with."""
        calls = self._follow(self._found.known("tls_construct_stoc_alpn")).calls
        depth = 2 if self._found.numbered else 1
        passed = {
            (text.path, length.path)
            for call in calls
            for text, length in [call.arguments[1:3]]
            if isinstance(text, LoadedField)
            and isinstance(length, LoadedField)
            and text.path[:-1] == length.path[:-1]
            and len(text.path) == depth
        }
        if len(passed) != 1:
            raise Unplannable("no one text is the protocol that was agreed on")
        ((text, length),) = passed
        self.paths |= {"alpn": FieldPath(text, _POINTER), "alpn_length": FieldPath(length, 4)}

    def _hello_retry(self) -> None:
        """The number with which a ServerHello has the random bytes that make it a HelloRetryRequest: 1, and no other."""
        address = self._found.known("tls_construct_server_hello")

        def asks_again(fields: _Fields) -> bool:
            sent = {call.arguments[1] for call in self._follow(address, fields=fields).calls}
            return any(isinstance(value, int) and self._image.constant(value, 32) == _ASKING_AGAIN for value in sent)

        numbers = sorted({found.path for found in self._follow(address).fields if len(found.path) == 1 and found.size == 4})
        if len(numbers) > MOST_FIELDS:
            raise Unplannable("what makes a ServerHello looks at too many numbers")
        pending = [path for path in numbers if [asks_again({path: value}) for value in range(3)] == [False, True, False]]
        if len(pending) != 1:
            raise Unplannable("no one number tells of a HelloRetryRequest")
        self.paths["hello_retry"] = FieldPath(pending[0], 4)

    def _certificates(self) -> None:
        self.paths |= CertificatePaths(self._image, self._found, self._session).paths

    def _cipher(self) -> None:
        """The structure in the session that is asked for its algorithms, and in it the number, as tables of ciphers have it."""
        session, given = LoadedField((self._session,)), 0 if self._found.numbered else 1
        found: set[int] = set()
        for name in _KEYS:
            calls = self._follow(self._found.address(name)).calls if name in self._found.functions else ()
            for target in {call.target for call in calls if call.arguments[given] == session and isinstance(call.target, int)}:
                read = followed_in(self._image, target, Assumptions({ARGUMENTS[given]: _CONNECTION})).fields
                found |= {field.path[0] for field in read if len(field.path) == 2}
        numbers = self._cipher_numbers()
        if len(found) != 1 or len(numbers) != 1:
            raise Unplannable("the session's cipher isn't found")
        self.paths["cipher"] = FieldPath((self._session, found.pop(), numbers.pop()), 4)

    def _cipher_numbers(self) -> set[int]:
        """The places of the number in a row of a table of ciphers, behind its name."""
        offsets = set()
        for name, number in _CIPHERS:
            places = [
                place for text in islice(self._image.find_string(name), _MOST_NAMES) for place in self._image.pointers_to(text)
            ]
            rows = [place - _POINTER for place in places if self._image.constant(place - _POINTER, 4) == 1]
            offsets |= {at for row in rows for at in range(_POINTER * 2, 48, 4) if self._image.constant(row + at, 4) == number}
        return offsets
