# SPDX-License-Identifier: Apache-2.0
"""The algorithm that a connection of an OpenSSL without symbols signs with, the certificate that it serves, and that of its
peer. Each is shown by functions that raise errors: what they hand on, and what has them raise one.

Beside the certificate lies its private key: so the one is taken only where the other is known to be another field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, OutgoingCall
from ssllatency.data_class import dataclass
from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.openssl.signatures import code_point_offset
from ssllatency.stacks.openssl.unnamed.finder import CONNECTION, MOST_FIELDS, SMALL, Fields
from ssllatency.stacks.openssl.unnamed.functions import UnnamedOpenSslFunctions

_SIGNS, _SERVES, _SENDS = "tls_construct_cert_verify", "tls_construct_server_certificate", "ssl_add_cert_to_wpacket"
_CHECKS, _ASKS = "tls_process_cert_verify", ("tls_process_client_certificate", "tls_process_client_rpk")
_COUNTS = "OPENSSL_sk_num"
_NO_CERTIFICATE = 199  # SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: include/openssl/sslerr.h
_MODES = {0: False, 1: False, 2: False, 3: True}  # SSL_VERIFY_PEER and SSL_VERIFY_FAIL_IF_NO_PEER_CERT: whether that is raised
# A message without certificates: three bytes that say so, in a PACKET (its bytes, how many are left) to which nothing else
# leads.
_MESSAGE = LoadedField((-1,))
_NO_CERTIFICATES: Fields = {(-1, 8): 3, (-1, 0, 0): 0, (-1, 0, 1): 0, (-1, 0, 2): 0}
_TLS_1_2 = 0x303
_FIRST, _SECOND, _THIRD = 0, 1, 2  # arguments
_POINTER = 8


@dataclass(frozen=True)
class _Places:
    """Arguments by their numbers: the record of what looks its digest up, the key of what begins a signature, the reason of
    what breaks off. `depth` is that of what a connection holds for a handshake, which has a structure of its own before 3.0."""

    record: int = 1
    key: int = 5
    reason: int = 2
    depth: int = 1


_SINCE_3, _BEFORE_3 = _Places(), _Places(record=0, key=4, reason=3, depth=2)


class CertificatePaths:
    """The `paths` of the connections of an image whose functions have been `found`, as labels() of a stack has them; `session`
    is the offset of theirs. What counts a stack's members is named there."""

    def __init__(self, image: Image, found: UnnamedOpenSslFunctions, session: int) -> None:
        self._image, self._found, self._session = image, found, session
        self._places = _BEFORE_3 if found.numbered else _SINCE_3
        self.paths: dict[str, FieldPath] = {}
        for step in (self._signature, self._certificate, self._verify_mode, self._peer_certificate):
            try:
                step()
            except (Unplannable, ElfError):
                continue

    def _calls(self, name: str) -> list[OutgoingCall]:
        return self._found.follow(self._found.known(name)).calls

    def _signature(self) -> None:
        """The record that is looked up to sign with, and in it the code point, as the table of records has it beside the kind
        of key."""
        depth = self._places.depth
        looking_up = (call.arguments for call in self._calls(_SIGNS) if _depth(call.arguments[_FIRST]) == depth)
        record = _only({arguments[self._places.record] for arguments in looking_up}, depth).path
        fields = self._found.follow(self._found.known(_SIGNS)).fields
        kinds = {field.path[-1] for field in fields if field.path[:-1] == record and field.size == 4}
        if len(kinds) != 1:
            raise Unplannable("the kind of key isn't found that signs")
        offset = code_point_offset(self._image, None, kinds.pop())
        if offset is None:
            raise Unplannable("the library's table of signature algorithms isn't found")
        self.paths["signature"] = FieldPath((*record, offset), 2)

    def _certificate(self) -> None:
        """The certificate that is sent of what a server hands on, whose key signs, and those that are checked with it."""
        depth = self._places.depth
        held = _only({call.arguments[_THIRD] for call in self._calls(_SERVES)}, depth).path
        keys = {call.arguments[self._places.key] for call in self._calls(_SIGNS)}
        key = _only({value for value in keys if _depth(value) == depth + 1}, depth + 1).path
        callees = {call.target for call in self._calls(_SERVES) if _path(call.arguments[_THIRD]) == held}
        followed = [self._of_held(target) for target in callees if isinstance(target, int)]
        sends = self._found.known(_SENDS)
        sending = [each for each in followed if any(call.target == sends for call in each.calls)]
        if len(sending) != 1 or key[:-1] != held:
            raise Unplannable("no one function sends the certificate whose key signs")
        calls = sending[0].calls
        sent = _only({call.arguments[_THIRD] for call in calls if call.target == sends}, depth=1).path
        if sent[0] == key[-1]:
            raise Unplannable("what is sent isn't told from the private key")
        self.paths["certificate"] = FieldPath((*held, *sent), _POINTER)
        beside = {call.arguments[_SECOND] for call in calls if _path(call.arguments[_THIRD]) == sent}
        chain = _only(beside, depth=1).path
        if chain[0] in (sent[0], key[-1]):
            raise Unplannable("the chain isn't told from the certificate and its key")
        self.paths["chain"] = FieldPath((*held, *chain), _POINTER)
        self._name_count({call.target for call in calls if _path(call.arguments[_FIRST]) == chain})

    def _of_held(self, address: int) -> Evaluation:
        """Follow what is handed a certificate and its key on, of these."""
        return followed_in(self._image, address, Assumptions({"rdx": CONNECTION}))

    def _name_count(self, targets: Iterable[object]) -> None:
        """Names the one of these functions which only returns a number of a stack's."""
        for target in sorted(each for each in targets if isinstance(each, int)):
            bounds = self._image.function_bounds(target)
            followed = followed_in(self._image, target, Assumptions({"rdi": CONNECTION}))
            numbers = {value for value in followed.results if not isinstance(value, int)}
            number = numbers.pop() if len(numbers) == 1 else None
            if _depth(number) == 1 and isinstance(number, LoadedField) and number.size == 4 and not followed.calls:
                self._found.name_accessor(_COUNTS, bounds)

    def _verify_mode(self) -> None:
        """The number that has a server raise an error about a client without a certificate where it holds both of two bits:
        of any message, or where the parsing of one is all that is followed, of one without certificates."""
        for name in _ASKS:
            for message in (None, _MESSAGE) if name in self._found.functions else ():
                modes = self._modes(name, message)
                if len(modes) == 1:
                    self.paths["verify_mode"] = FieldPath(modes[0], 4)
                    return

    def _modes(self, name: str, message: LoadedField | None) -> list[tuple[int, ...]]:
        """The numbers by which it raises that error; those of 64 bits only where there are no others, as compilers load what is
        beside a number with it where they look at some of its bits."""
        read = self._processing(name, message).fields
        for size in (4, 8):
            numbers: list[tuple[int, ...]] = sorted(
                {field.path for field in read if len(field.path) == 1 and field.size == size}
            )
            if len(numbers) > MOST_FIELDS:
                raise Unplannable(f"{name} looks at too many numbers")
            if modes := [path for path in numbers if self._is_mode(name, message, path)]:
                return modes
        return []

    def _is_mode(self, name: str, message: LoadedField | None, path: tuple[int, ...]) -> bool:
        return all(self._refuses(name, message, path, mode) == refuses for mode, refuses in _MODES.items())

    def _refuses(self, name: str, message: LoadedField | None, path: tuple[int, ...], mode: int) -> bool:
        fatal = self._found.known("ossl_statem_fatal")
        calls = self._processing(name, message, {path: mode}).calls
        return any(call.target == fatal and call.arguments[self._places.reason] == _NO_CERTIFICATE for call in calls)

    def _processing(self, name: str, message: LoadedField | None, fields: Fields = MappingProxyType({})) -> Evaluation:
        """Follow it for a message, if that is known."""
        address = self._found.known(name)
        if message is None:
            return self._found.follow(address, fields=fields)
        known = {(self._found.offsets["version"],): _TLS_1_2, **_NO_CERTIFICATES}
        return self._found.follow(address, {"rsi": message}, {**known, **fields}, {_COUNTS: 0})

    def _peer_certificate(self) -> None:
        """The one in the session whose key the check of the peer's signature asks for, by itself or since OpenSSL 3.2 by a
        small function."""
        address = self._found.known(_CHECKS)
        small = (
            each for each in self._image.functions_at(sorted(self._found.called_with_own(address))) if each[1] - each[0] < SMALL
        )
        asked = set(self._in_session([address, *(start for start, _ in small)]))
        self.paths["peer_certificate"] = FieldPath(_only(asked, depth=2).path, _POINTER)

    def _in_session(self, addresses: list[int]) -> Iterator[object]:
        """The pointers of the session's that these functions hand on as a first argument."""
        for address in addresses:
            for call in self._found.follow(address).calls:
                path = _path(call.arguments[_FIRST])
                if len(path) == 2 and path[0] == self._session:
                    yield call.arguments[_FIRST]


def _path(value: object) -> tuple[int, ...]:
    return value.path if isinstance(value, LoadedField) else ()


def _depth(value: object) -> int:
    return len(_path(value))


def _only(values: Iterable[object], depth: int) -> LoadedField:
    """The one pointer so far from a connection among these values. Unplannable where that isn't so."""
    pointers = {value for value in values if isinstance(value, LoadedField) and value.is_pointer and len(value.path) == depth}
    pointer = pointers.pop() if len(pointers) == 1 else None
    if pointer is None:
        raise Unplannable("no one pointer is what is looked for")
    return pointer
