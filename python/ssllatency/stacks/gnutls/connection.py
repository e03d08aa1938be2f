# SPDX-License-Identifier: Apache-2.0
"""Places of a GnuTLS session's state and labels, read out of the library's own accessors; numbers that no accessor
shows, out of the tables to which its session points. What the code doesn't show, or shows with room for doubt, is absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.gnutls.extensions import extension_paths
from ssllatency.stacks.openssl.accessors import field_set
from ssllatency.stacks.rows import MOST_PLACES, rows_naming, suite_reader, table
from ssllatency.stacks.texts import pointers_to_text

_SESSION = SymbolicAddress("argument", 0)
_ENTITY = (0,)  # GNUTLS_SERVER (1) or GNUTLS_CLIENT (2), of gnutls/gnutls.h
_SERVER, _CLIENT = 1, 2
_MAX_OFFSET = 1 << 16
_MAX_ENTRY = 96
_POINTER = 8
# Cipher suites by the two bytes that name them in TLS, and groups by their numbers: GnuTLS' own, and TLS'.
_SUITES = {
    b"TLS_AES_128_GCM_SHA256": b"\x13\x01",
    b"TLS_CHACHA20_POLY1305_SHA256": b"\x13\x03",
    b"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": b"\xc0\x2f",
}
_GROUPS = {b"SECP256R1": (2, 23), b"SECP384R1": (3, 24), b"X25519": (6, 29)}
_SETTERS = tuple(f"gnutls_transport_set_{name}_function" for name in ("pull", "pull_timeout", "push", "vec_push"))


def connection_offsets(image: Image) -> dict[str, int]:
    """Byte offsets by the names of SslOffsets: "server", of which the bits "server_bits" count, and "rwstate", whose lowest
    byte says what an interrupted call waited for: 0 to read, 1 to write. Empty for an image that isn't GnuTLS."""
    resumed, direction = _follow(image, "gnutls_session_is_resumed"), _returned(image, "gnutls_record_get_direction", 1)
    entity = {"server": _ENTITY[0], "server_bits": _SERVER} if resumed and LoadedField(_ENTITY, 4) in resumed.fields else {}
    return {**entity, **({"rwstate": direction.path[0]} if direction and direction.size == 1 else {})}


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The paths by the label's name; a label whose path is uncertain is absent.

    "version" is GnuTLS' own number, "cipher" the two bytes of TLS, in their order, "group" TLS' number,
    "signature" GnuTLS' number of the algorithm that the server signs with; "resumed" counts in a server, and by TLS 1.3 in a
    client. "in_init" isn't 0 from within the first call of a handshake until it has succeeded. "alert" is the last one that was
    received, "descriptor" the transport: a descriptor, or an application's own pointer.

    "certificate_bytes" is the address of a server's certificate and of its length, once it has chosen it. "verify_mode" isn't 0
    in a server that asks for a certificate; "peer_certificate" points to the peer's where "credentials" is 1. "server_name" and
    "alpn" are as extension_paths() has them. "quic_functions" points to the one by which an application takes its messages
    itself, as for QUIC.
    """
    paths = {
        "version": _label(_returned(image, "gnutls_protocol_get_version", 2), 4),
        "cipher": _of_suite(image),
        "group": _of_group(image),
        "signature": _label(_returned(image, "gnutls_sign_algorithm_get", 1), 4),
        "resumed": _label(_resumed(image), 1),
        "in_init": _label(_under_way(image), 1),
        "alert": _label(_returned(image, "gnutls_alert_get", 1), 4),
        "descriptor": _label(_returned(image, "gnutls_transport_get_ptr", 1), 8),
        "certificate_bytes": _own_certificate(image),
        "quic_functions": field_set(image, "gnutls_handshake_set_read_function"),
    }
    found = {name: path for name, path in paths.items() if path}
    return {**found, **_certificate_paths(image), **extension_paths(image)}


def suites(image: Image) -> dict[int, str]:
    """The names of cipher suites by their 32-bit identifiers, 0x0300 and TLS' number."""
    name = _returned(image, "gnutls_ciphersuite_get", 2)
    number = _suite_number(image, name.path[1]) if name else None
    if name is None or number is None:
        return {}
    anchors = (start for text in _SUITES for start in rows_naming(image, text, name.path[1]))
    return table(suite_reader(image, number, name.path[1]), anchors)


def transport_pointers(image: Image) -> Mapping[str, int]:
    """The offsets in a session of the functions that read, wait and write, by the function that sets each."""
    paths = {setter: field_set(image, setter) for setter in _SETTERS}
    return {setter: path.offsets[0] for setter, path in paths.items() if path}


def _follow(
    image: Image, name: str, fields: Mapping[tuple[int, ...], int] | None = None, **arguments: SymbolicAddress
) -> Evaluation | None:
    function = image.function(name)
    return followed_in(image, function.address, Assumptions({"rdi": _SESSION, **arguments}, fields or {})) if function else None


def _returned(image: Image, name: str, depth: int, size: int = 0) -> LoadedField | None:
    """The one field that the accessor returns."""
    return _only(_follow(image, name), depth, size)


def _resumed(image: Image) -> LoadedField | None:
    """The flag that is returned of a server; and of a client too, in TLS 1.3."""
    server, client = (_follow(image, "gnutls_session_is_resumed", {_ENTITY: entity}) for entity in (_SERVER, _CLIENT))
    flag = _only(server, 1, 1)
    return flag if client and flag in client.results else None


def _only(evaluation: Evaluation | None, depth: int, size: int) -> LoadedField | None:
    """The one field that is returned, among numbers of errors, if it is of this depth and size (0: any)."""
    results = evaluation.results if evaluation else []
    fields = {value for value in results if isinstance(value, LoadedField)}
    if len(fields) != 1 or not all(isinstance(value, LoadedField | int) for value in results):
        return None
    field = fields.pop()
    small = all(0 <= offset < _MAX_OFFSET for offset in field.path)
    return field if len(field.path) == depth and small and size in (0, field.size) else None


def _label(field: LoadedField | None, size: int) -> FieldPath | None:
    return FieldPath(field.path, size) if field and field.size == size else None


def _certificate_paths(image: Image) -> dict[str, FieldPath]:
    """Whether a server asks for a certificate, as gnutls_certificate_server_set_request stores it; where the peer's are; and
    what the peer has proved itself by, at which gnutls_certificate_get_peers looks first."""
    request, peers = (_follow(image, f"gnutls_certificate_{name}") for name in ("server_set_request", "get_peers"))
    modes = {place for place, _ in request.stores} if request else set()
    kinds = {field for field in peers.fields if len(field.path) == 1 and field.size == 4} if peers else set()
    certificates = _only(peers, 2, 8)
    if len(modes) != 1 or len(kinds) != 1 or certificates is None:
        return {}
    mode, kind = modes.pop(), kinds.pop()
    if mode.base != _SESSION.base or not 0 < mode.offset < _MAX_OFFSET:
        return {}
    return {
        "verify_mode": FieldPath((mode.offset,), 4),
        "peer_certificate": FieldPath(certificates.path, certificates.size),
        "credentials": FieldPath(kind.path, kind.size),
    }


def _own_certificate(image: Image) -> FieldPath | None:
    """The path to the first of a side's own certificates, whose address gnutls_certificate_get_ours returns, or nothing."""
    evaluation = _follow(image, "gnutls_certificate_get_ours")
    addresses = {value for value in evaluation.results if isinstance(value, SymbolicAddress)} if evaluation else set()
    if len(addresses) != 1:
        return None
    address = addresses.pop()
    if not isinstance(address.base, LoadedField) or len(address.base.path) != 1 or address.base.size != _POINTER:
        return None
    path = (*address.base.path, address.offset)
    return FieldPath(path, 0) if all(0 <= offset < _MAX_OFFSET for offset in path) else None


def _under_way(image: Image) -> LoadedField | None:
    """The flag at which gnutls_ciphersuite_get looks: while it is set, the suite isn't settled."""
    evaluation = _follow(image, "gnutls_ciphersuite_get")
    flags = {field for field in evaluation.fields if len(field.path) == 1 and field.size == 1} if evaluation else set()
    return flags.pop() if len(flags) == 1 else None


def _of_suite(image: Image) -> FieldPath | None:
    name = _returned(image, "gnutls_ciphersuite_get", 2)
    number = _suite_number(image, name.path[1]) if name else None
    return FieldPath((name.path[0], number), 2) if name and number is not None else None


def _suite_number(image: Image, name: int) -> int | None:
    """The offset of TLS' number in an entry of the table of cipher suites, one whose name lies at `name`."""
    return _common(
        {
            offset
            for start in rows_naming(image, text, name)
            for offset in range(0, _MAX_ENTRY, 2)
            if image.constant(start + offset, 2) == int.from_bytes(number, "little")
        }
        for text, number in _SUITES.items()
    )


def _of_group(image: Image) -> FieldPath | None:
    own = _returned(image, "gnutls_group_get", 2)
    if own is None:
        return None
    number = _common(
        {
            offset
            for place in pointers_to_text(image, text, MOST_PLACES)
            for start in range(place, place - _MAX_ENTRY, -8)
            if image.constant(start + own.path[1], 4) == numbers[0]
            for offset in range(0, _MAX_ENTRY, 2)
            if offset != own.path[1] and image.constant(start + offset, 2) == numbers[1]
        }
        for text, numbers in _GROUPS.items()
    )
    return FieldPath((own.path[0], number), 2) if number is not None else None


def _common(offsets: Iterable[set[int]]) -> int | None:
    """The one offset that is in all sets."""
    common = set.intersection(*offsets)
    return common.pop() if len(common) == 1 else None
