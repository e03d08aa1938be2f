# SPDX-License-Identifier: Apache-2.0
"""Places of a connection's labels in BoringSSL and AWS-LC, with symbols or without.

Few programs link the accessors that would show them, and stripped ones don't name these. So they are read out of what every
program has: the function that checks a peer's certificates leads to the session; the one that writes sessions down shows each
of its fields beside the tag of the stored form; and the table of extensions leads, by their numbers in TLS, to functions that
look at the protocol and at whether a session was resumed. The name that a client asked for is shown by SSL_get_servername,
or where it isn't linked by what parses a ClientHello. What isn't clear there is absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from ssllatency.code.constant_blocks import MAX_SIZE
from ssllatency.code.decode import lines
from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import MASK, Assumptions, FieldPath, LoadedField, SymbolicAddress
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.boringssl.inspections import inspection_path
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors, errors_of
from ssllatency.stacks.boringssl.signing import certificate_paths, getters_of_count
from ssllatency.stacks.found_functions import FOUND

_HANDSHAKE = SymbolicAddress("argument", 0)
_OUTPUT = SymbolicAddress("output", 0)
_MAX_OFFSET = 1 << 16

_STORING_FILE, _EXTENSIONS_FILE, _MESSAGES_FILE, _SERVER_FILE = "ssl_asn1", "extensions", "s3_both", "handshake_server"

# Tags of a session's stored form, [1] to [23], as CBB_add_asn1 takes them: a few that only what writes it has as arguments.
_TAGS = re.compile(rb"\xba([\x01-\x1f])\0\0\xa0")  # mov $tag, %edx
# movk register, #0xa000, lsl #16: what makes a tag, of which others may be made.
_OF_TAGS_AARCH64 = re.compile(rb"[\0-\x1e]\0\xb4\x72")
_TAG_CODE = 24  # bytes: the longest of these
_WRITTEN = {1, 2, 4, 14, 18, 19, 23}
_GROUP, _SIGNATURE, _PEER_DIGEST = 18, 23, 13
_TAG, _LARGEST_TAG = 0xA0000000, 31  # of the fields, as CBB_add_asn1 takes it third
_NEAR = 1 << 16  # bytes between functions of one source file
_FARTHEST = 8 << 20
_SETS_TAG = re.compile(r"edx, 0xa00000([01][0-9a-f])")
_LOADS_WORD = re.compile(r"esi, word ptr \[(?!rsp|rip)(\w+) \+ (\w+)\]")
_LOADS_WORD_AARCH64 = re.compile(r"w1, \[(?!sp)(x\d+), #(\w+)\]")

# What returns a server's name, and the kind of name that it is asked for, TLSEXT_NAMETYPE_host_name.
_GETS_NAME, _HOST_NAME, _LIB = "SSL_get_servername", 0, "ssl_lib"
_TESTS_SECOND = re.compile(rb"\x85\xf6")  # test %esi, %esi
_TESTS_SECOND_AARCH64 = re.compile(rb"[\x01\x21\x41\x61\x81\xa1\xc1\xe1][\0-\xff]{2}[\x34\x35]")  # cbz and cbnz w1
_WITHIN, _LONGEST_GETTER = 16, 96  # bytes from a function's beginning to that test, and of the function

# What stores it: a copy that a function has just made, as it makes those of texts in stored sessions.
_LOADS = re.compile(r"(\w+), qword ptr \[(?!rsp|rip)(\w+) \+ (0x[0-9a-f]+|\d+)\]")
_STORES = re.compile(r"qword ptr \[(?!rsp|rip)(\w+) \+ (0x[0-9a-f]+|\d+)\], (\w+)")
_SOON = 10  # instructions

# openssl/ssl.h: SSL_R_EXCESSIVE_MESSAGE_SIZE, and the largest message of a handshake that has no certificates in it.
_EXCESSIVE_SIZE, _LARGEST_MESSAGE = 150, 0x4000
_VERIFY_PEER, _OTHER_MODES = 1, (2, 4)

# IANA's numbers of extensions, and the functions of a row: what a client adds and parses, what a server parses and adds.
_SERVER_NAME, _PROTOCOL, _QUIC_PARAMETERS = 0, 16, 57
_ROW, _PARSES, _ADDS = 40, 24, 32  # bytes of a row, and from its beginning to the last two of its functions
_POINTER, _LARGEST_TYPE = 8, 0xFFFF
_MOST_ROWS = 64
_DEPTH = 2  # fields on the way from a handshake to its configuration's
_T = TypeVar("_T")


def label_paths(image: Image, holder: int) -> dict[str, FieldPath]:
    """The paths by the label's name: "version", "cipher" (its number in TLS), "group", "resumed", "alpn" and "alpn_length"; and
    "server_name", a text that ends in a zero byte, of servers. Of these as well "verify_mode", whether they ask for a
    certificate, "peer_certificate", how many the client has sent, and "peer_digest", whether one's digest is kept in their
    place. "sent_certificates" and "first_certificate" as signing.py has them. "quic_parameters" and "quic_parameters_length"
    lead from what quic_function() is called with to the transport parameters of this side. "quic_functions" is as OpenSSL's
    label_paths() has it, and "alpn_function" as inspection_path() has it. `holder` is where SSL points to the rest of its
    state."""
    try:
        labels = Labels(image, errors_of(image), holder)
    except (Unplannable, ElfError):
        return {}
    paths: dict[str, FieldPath] = {}
    parts: tuple[Callable[[], dict[str, FieldPath]], ...] = (
        labels.of_session,
        labels.resumed,
        labels.protocol,
        labels.server_name,
        labels.client_certificate,
        labels.parameters,
        lambda: certificate_paths(image, labels.errors),
        labels.quic_functions,
        lambda: {"alpn_function": inspection_path(image, labels.errors, holder)},
    )
    for part in parts:
        try:
            paths |= part()
        except (Unplannable, ElfError):
            continue
    return {name: path for name, path in paths.items() if all(0 <= offset < _MAX_OFFSET for offset in path.offsets)}


def quic_function(image: Image, holder: int) -> Function:
    """The function by which a server adds its transport parameters of QUIC, as its table of extensions shows it: it is called
    with the handshake, where the client has sent its own. Unplannable where these aren't seen to be passed on there."""
    labels = Labels(image, errors_of(image), holder)
    labels.parameters()
    start, end = image.function_bounds(labels.adding_parameters()) or (0, 0)
    if start != labels.adding_parameters():
        raise Unplannable("the function that adds parameters of QUIC isn't one of the unwind tables")
    return Function("transport parameters", start, end - start, FOUND)


class Labels:
    """The evidence in the code of one image; Unplannable from each of its functions where that isn't clear."""

    def __init__(self, image: Image, errors: RaisedErrors, holder: int) -> None:
        self._image, self.errors, self._holder = image, errors, holder

    def _follow(self, address: int, fields: dict[tuple[int, ...], int] | None = None) -> Evaluation:
        """A function of the handshake's, whose first argument it is."""
        return followed_in(self._image, address, Assumptions({"rdi": _HANDSHAKE, "rsi": _OUTPUT}, fields or {}))

    def _is_in_holder(self, field: LoadedField, depth: int) -> bool:
        return (
            len(field.path) == depth and field.path[1] == self._holder and 0 <= min(field.path) <= max(field.path) < _MAX_OFFSET
        )

    # The session.

    def of_session(self) -> dict[str, FieldPath]:
        """Return the labels that a session keeps."""
        session = (self._holder, self.session())
        version, cipher, group = self._stored()
        return {
            "version": FieldPath((*session, *version), 2),
            "cipher": FieldPath((*session, *cipher), 2),
            "group": FieldPath((*session, *group), 2),
        }

    def session(self) -> int:
        """Return the offset of the pointer to the established session, into which alone the check of the peer's certificates
        looks."""
        (start, _) = only(self.errors.checking_certificates(), "check certificates")
        read = self._follow(start).fields
        followed = {field.path[:3] for field in read if self._is_in_holder(field, 4)}
        return only(followed, "pointers lead from a connection to its session")[2]

    def _stored(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The fields of a session that hold the version, the cipher's number and the group, by what writes it down."""
        function = self._writing()
        group, signature = (self._word_after(function, tag) for tag in (_GROUP, _SIGNATURE))
        passed = {call.arguments[1] for call in self._follow(function[0]).calls}
        words = {field.path for field in passed if isinstance(field, LoadedField) and field.size == 2 and field.whole}
        versions = {path for path in words if len(path) == 1} - {(group,), (signature,)}
        version, cipher = only(versions, "versions"), only({path for path in words if len(path) == 2}, "ciphers")
        if len({version, (group,), (signature,)}) != 3:
            raise Unplannable("what writes sessions down doesn't tell their fields apart")
        return version, cipher, (group,)

    def _writing(self) -> Range:
        """The function that writes sessions down."""
        near = self.errors.of(_STORING_FILE)
        within = (min(near)[0] - _NEAR, max(near)[1] + _NEAR) if near else (0, 0)
        if within[1] - within[0] > _FARTHEST:
            raise Unplannable("the functions that store sessions lie too far apart")
        tags: dict[Range, set[int]] = {}
        for start, code in self._image.code_pieces(_TAG_CODE, within):
            for match in self._tag_code().finditer(code):
                bounds = self._image.function_bounds(start + match.start())
                if bounds and self._image.machine == "x86-64":
                    tags.setdefault(bounds, set()).add(match[1][0])
                elif bounds and bounds not in tags and match.start() % 4 == 0:
                    tags[bounds] = {tag for used in self._tags_of(bounds).values() for tag in used}
        return only([function for function, used in tags.items() if used >= _WRITTEN], "write sessions down")

    def _tag_code(self) -> re.Pattern[bytes]:
        """The code that sets a tag, or on aarch64 what tags are made of."""
        return _TAGS if self._image.machine == "x86-64" else _OF_TAGS_AARCH64

    def _tags_of(self, function: Range) -> dict[int, set[int]]:
        """The tags with which a function calls others, by the addresses of the calls."""
        tags: dict[int, set[int]] = {}
        for call in self.errors.calls(function):
            if call.arguments[2] is not None and 0 < call.arguments[2] - _TAG <= _LARGEST_TAG:
                tags.setdefault(call.address, set()).add(call.arguments[2] - _TAG)
        return tags

    def _word_after(self, function: Range, tag: int) -> int:
        """The offset of the word that is passed on next to each use of the tag; Unplannable if it isn't the same one."""
        start, end = function
        offsets: set[int] = set()
        waits, of_x86 = False, self._image.machine == "x86-64"
        loads, text = ("movzx", _LOADS_WORD) if of_x86 else ("ldrh", _LOADS_WORD_AARCH64)
        tags = {} if of_x86 else self._tags_of(function)
        for line in lines(self._image.code(start, end - start), start, self._image.machine):
            if of_x86 and (match := _SETS_TAG.search(line.op_str)):
                waits = int(match[1], 16) == tag
            elif line.address in tags:
                waits = tags[line.address] == {tag}
            elif waits and line.mnemonic == loads and (match := text.fullmatch(line.op_str)):
                offsets.add(int(match[2], 0))
                waits = False
        return only(offsets, "fields follow a tag")

    # The client's certificate.

    def client_certificate(self) -> dict[str, FieldPath]:
        """Return the mode by which a server asks for one, and how many certificates its session has, or whether a digest."""
        mode, session = self._mode(), (self._holder, self.session())
        certificates, (digest, bit) = self._certificates(), self._digest()
        return {
            "verify_mode": FieldPath(mode, 1),
            "peer_certificate": FieldPath((*session, certificates, 0), _POINTER),
            "peer_digest": FieldPath((*session, digest), 1, bit),
        }

    def _mode(self) -> tuple[int, ...]:
        """The byte behind a pointer in the connection by whose lowest bit a server's handshake may have larger messages, as
        those with certificates are, than it may without."""
        reading = [each for each, raised in self.errors.of(_MESSAGES_FILE).items() if _EXCESSIVE_SIZE in raised]
        callees = {callee[0] for function in reading for callee in self.errors.callees(function)}
        limiting = {start: found for start in callees if _LARGEST_MESSAGE in (found := self._follow(start)).results}
        start = only(set(limiting), "functions limit messages")
        fields = limiting[start].fields
        flags = {field.path for field in fields if field.size == 1}
        leading = {field.path[:1] for field in fields if len(field.path) > 1}
        # Compilers for aarch64 load the bit that tells servers with what lies beside it.
        sides = {path for path in flags if len(path) == 1} or {
            field.path for field in fields if len(field.path) == 1 and field.size == _POINTER and field.path not in leading
        }
        server = only(sides, "words tell which side it is")
        mode = only(flags - {server}, "bytes tell whether a certificate is asked for")

        def may_be_larger(value: int) -> bool:
            limits = self._follow(start, {server: MASK, mode: value}).results
            return any(isinstance(limit, LoadedField) for limit in limits)

        larger = [value for value in (0, _VERIFY_PEER, *_OTHER_MODES) if may_be_larger(value)]
        if larger != [_VERIFY_PEER] or len(mode) != 2 or not all(0 <= offset < _MAX_OFFSET for offset in mode):
            raise Unplannable("what limits messages doesn't look at the mode")
        return mode

    def _certificates(self) -> int:
        """The pointer in a session to a stack, by what asks how many members that has."""
        calls = self._follow(self._writing()[0]).calls
        asked = {(call.arguments[0], call.target) for call in calls if isinstance(call.target, int)}
        counts = getters_of_count(self._image, {target for _, target in asked if isinstance(target, int)})
        stacks = {value for value, target in asked if target in counts and isinstance(value, LoadedField) and value.is_pointer}
        (offset,) = only({field.path for field in stacks if len(field.path) == 1}, "stacks lie in a session")
        return offset

    def _digest(self) -> tuple[int, int]:
        """The byte in a session and the bit with which the digest of a certificate is written down, and without which it
        isn't."""
        (start, _) = self._writing()

        def writes(path: tuple[int, ...], value: int) -> bool:
            return any(call.arguments[2] == _TAG + _PEER_DIGEST for call in self._follow(start, {path: value}).calls)

        def bits(size: int) -> list[tuple[int, int]]:
            words = {field.path for field in self._follow(start).fields if len(field.path) == 1 and field.size == size}
            decides = [path for path in words if writes(path, MASK) and not writes(path, 0)]
            return [(path[0], number) for path in decides for number in range(8 * size) if writes(path, 1 << number)]

        (offset, number) = only(bits(1) or bits(_POINTER), "bits tell of a digest")  # with what lies beside it, as above
        return offset + number // 8, 1 << number % 8

    # The name.

    def server_name(self) -> dict[str, FieldPath]:
        """Return the field of a server's that SSL_get_servername returns, where the connection has no name of its own to ask
        for."""
        named = self._image.function(_GETS_NAME)
        starts = {named.address} if named else set(self._testing_second())
        found = {start: path for start in starts if (path := self._name_returned(start))}
        path = found[only(set(found), "functions return a name")] if found else (self._holder, self.name_stored())
        return {"server_name": FieldPath(path, _POINTER)}

    def name_stored(self) -> int:
        """The pointer behind the holder that what parses a ClientHello replaces by the copy of a text."""
        functions = set(self.errors.of(_SERVER_FILE))
        functions |= {callee for function in functions for callee in self.errors.callees(function)}
        storing = {call.target for function in self.errors.of(_STORING_FILE) for call in self.errors.calls(function)}
        replaced = {pair for function in functions for pair in self._replaced(function)}
        return only({offset for target, offset in replaced if target in storing}, "pointers to copies of texts are replaced")

    def _replaced(self, function: Range) -> Iterator[tuple[int, int]]:
        """The function that was called, and the pointer behind the holder that is read and replaced soon after that."""
        called, since, base, read = 0, 0, "", set[int]()
        start, end = function
        if end - start > MAX_SIZE:
            return
        for line in lines(self._image.code(start, end - start), start, self._image.machine):
            since += 1
            if line.mnemonic == "call":
                called = int(line.op_str, 16) if line.op_str.startswith("0x") else 0
                since, base, read = 0, "", set()
            elif line.mnemonic != "mov" or since > _SOON or not called:
                continue
            elif match := _LOADS.fullmatch(line.op_str):
                offset = int(match[3], 0)
                if offset == self._holder:
                    base, read = match[1], set()
                elif match[2] == base:
                    read.add(offset)
            elif (match := _STORES.fullmatch(line.op_str)) and match[1] == base and int(match[2], 0) in read:
                yield called, int(match[2], 0)

    def _testing_second(self) -> Iterator[int]:
        """The small functions among those of ssl_lib.cc that look at their second argument first."""
        near = self.errors.of(_LIB)
        within = (min(near)[0] - _NEAR, max(near)[1] + _NEAR) if near else (0, 0)
        if within[1] - within[0] > _FARTHEST:
            raise Unplannable("the functions of ssl_lib.cc lie too far apart")
        step, tests = (1, _TESTS_SECOND) if self._image.machine == "x86-64" else (4, _TESTS_SECOND_AARCH64)
        for start, code in self._image.code_pieces(_WITHIN, within):
            for match in tests.finditer(code):
                place = start + match.start()
                if match.start() % step:
                    continue
                bounds = self._image.function_bounds(place)
                if bounds and place - bounds[0] < _WITHIN and bounds[1] - bounds[0] <= _LONGEST_GETTER:
                    yield bounds[0]

    def _name_returned(self, start: int) -> tuple[int, ...]:
        """The path of the pointer behind the holder that the function returns for a host's name, beside one in the connection
        itself; () unless it returns NULL for another kind of name."""
        connection = SymbolicAddress("argument", 0)

        def results(kind: int) -> set[object]:
            return set(followed_in(self._image, start, Assumptions({"rdi": connection, "rsi": kind})).results)

        fields = results(_HOST_NAME) - {0}
        if results(_HOST_NAME + 1) != {0} or not all(isinstance(field, LoadedField) and field.is_pointer for field in fields):
            return ()
        paths = sorted((field.path for field in fields if isinstance(field, LoadedField)), key=len)
        whole = [len(path) for path in paths] == [1, 2] and paths[1][0] == self._holder
        return paths[1] if whole and 0 <= paths[1][1] < _MAX_OFFSET else ()

    # The extensions.

    def resumed(self) -> dict[str, FieldPath]:
        """The bit that the answer to a server name looks at: where it is set, nothing is added."""
        address = self._adding(_SERVER_NAME)
        fields = {field for field in self._follow(address).fields if self._is_in_holder(field, 3)}
        flag = only({(field.path, field.size) for field in fields}, "words tell whether a session is resumed")
        (path, size) = flag
        if not self._follow(address, {path: 0}).calls:
            raise Unplannable("nothing is added where it is 0")
        bits = [number for number in range(8 * size) if not self._follow(address, {path: 1 << number}).calls]
        bit = only(bits, "bits tell it")
        return {"resumed": FieldPath((*path[1:-1], path[-1] + bit // 8), 1, 1 << bit % 8)}

    def protocol(self) -> dict[str, FieldPath]:
        """The bytes that the answer with a protocol passes on, and how many they are."""
        passed = {call.arguments[1:3] for call in self._follow(self._adding(_PROTOCOL)).calls}
        pairs = {
            (text.path, length.path)
            for text, length in passed
            if isinstance(text, LoadedField) and isinstance(length, LoadedField)
            if self._is_in_holder(text, 3) and self._is_in_holder(length, 3) and text.is_pointer and length.size == _POINTER
        }
        text, length = only(pairs, "pairs of a text and its length are passed on")
        if length[-1] != text[-1] + _POINTER:
            raise Unplannable("the protocol's length doesn't lie beside it")
        return {"alpn": FieldPath(text[1:], _POINTER), "alpn_length": FieldPath(length[1:], _POINTER)}

    def parameters(self) -> dict[str, FieldPath]:
        """The transport parameters of QUIC that a server's answer passes on, and their length: from the handshake."""
        passed = {call.arguments[1:3] for call in self._follow(self.adding_parameters()).calls}
        pairs = {
            (at.path, length.path)
            for at, length in passed
            if isinstance(at, LoadedField) and isinstance(length, LoadedField)
            if len(at.path) == _DEPTH and at.is_pointer and length.is_pointer
            if length.path == (*at.path[:-1], at.path[-1] + _POINTER)
        }
        at, length = only(pairs, "pairs of parameters and their length are passed on")
        return {"quic_parameters": FieldPath(at, _POINTER), "quic_parameters_length": FieldPath(length, _POINTER)}

    def quic_functions(self) -> dict[str, FieldPath]:
        """The pointer in SSL at which a server looks where it parses transport parameters that a client hasn't sent: itself, or
        by a function that looks at no other. What sets it shows it as well."""
        parses = self._function(_QUIC_PARAMETERS, _PARSES)
        arguments = {"rdi": _HANDSHAKE, "rsi": _OUTPUT}
        sent, unsent = (
            followed_in(self._image, parses, Assumptions({**arguments, "rdx": parameters}))
            for parameters in (SymbolicAddress("parameters", 0), 0)
        )
        ssl = only({field.path[0] for field in sent.fields if self._is_in_holder(field, 3)}, "fields lead to SSL")
        own = {field.path[1] for field in unsent.fields if field.is_pointer and len(field.path) == 2 and field.path[0] == ssl}
        passed = LoadedField((ssl,), _POINTER)
        asked = {call.target for call in unsent.calls if isinstance(call.target, int) and call.arguments[0] == passed}
        by_others = {at for function in asked if (at := self._only_pointer(function))}
        return {"quic_functions": FieldPath((only((own | by_others) - {self._holder}, "pointers are looked at"),), _POINTER)}

    def _only_pointer(self, function: int) -> int | None:
        """The pointer in SSL that is all that the function looks at; it calls none."""
        followed = followed_in(self._image, function, Assumptions({"rdi": _HANDSHAKE}))
        fields = {field.path for field in followed.fields if field.is_pointer}
        return fields.pop()[0] if len(fields) == len(followed.fields) == 1 and not followed.calls else None

    def adding_parameters(self) -> int:
        """The function by which a server adds its transport parameters."""
        return self._adding(_QUIC_PARAMETERS)

    def _adding(self, extension: int) -> int:
        """The function by which a server adds this extension."""
        return self._function(extension, _ADDS)

    def _function(self, extension: int, at: int) -> int:
        """The function of that extension's row that lies there."""
        rows = [row for row in self._table() if self._image.constant(row, _POINTER) == extension]
        return self._image.pointer(only(rows, "rows are of one extension") + at) or 0

    def _table(self) -> Iterator[int]:
        """The rows of the table of extensions, to where what looks like one more is of an extension that had one."""
        row = self._row_of_protocol()
        for _ in range(_MOST_ROWS):
            if not self._is_row(row - _ROW):
                break
            row -= _ROW
        kinds: set[int | None] = set()
        while self._is_row(row) and (kind := self._image.constant(row, _POINTER)) not in kinds and len(kinds) < _MOST_ROWS:
            yield row
            kinds.add(kind)
            row += _ROW

    def _row_of_protocol(self) -> int:
        """The one row for ALPN to which a function belongs that raises errors in extensions.cc."""
        places = (place for function in self.errors.of(_EXTENSIONS_FILE) for place in self._image.pointers_to(function[0]))
        rows = {place - _POINTER * number for place in places for number in range(1, 5)}
        found = {row for row in rows if self._image.constant(row, _POINTER) == _PROTOCOL and self._is_row(row)}
        return only(found, "rows are of ALPN")

    def _is_row(self, row: int) -> bool:
        number = self._image.constant(row, _POINTER)
        functions = [self._image.pointer(row + _POINTER * step) for step in range(1, 5)]
        return (
            number is not None
            and number <= _LARGEST_TYPE
            and all(function and self._image.executable(function) for function in functions)
        )


def only(found: Collection[_T], what: str) -> _T:
    """The one that was found. Unplannable where there are more, or none."""
    if len(found) != 1:
        raise Unplannable(f"{len(found) or 'no'} {what}, where one is expected")
    return next(iter(found))
