# SPDX-License-Identifier: Apache-2.0
"""Places in the contexts of Mbed TLS, read out of the code of its accessors and of what sets them. What the code doesn't show,
or shows with room for doubt, is absent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ssllatency.abi import MbedtlsField
from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image
from ssllatency.stacks.mbedtls.operations import STEP
from ssllatency.stacks.openssl.accessors import field_returned
from ssllatency.stacks.texts import readable

_CONTEXT = SymbolicAddress("argument", 0)
_MAX_OFFSET = 1 << 16
_SERVER = 1  # MBEDTLS_SSL_IS_SERVER
_MOST_STATES = 48  # 19 in Mbed TLS 2.28, 30 in 3.6
_STOPS = 1  # returned by a step, ends a handshake's call
_INTEGER, _POINTER = 4, 8
_TLS_1_2 = {2: 3, 3: 0x0303}  # by Mbed TLS' major version: how its contexts say TLS 1.2
_ALERT, _FATAL = 21, 2
_NOTHING: Mapping[tuple[int, ...], Value] = MappingProxyType({})
_FUNCTIONS = (MbedtlsField.SEND, MbedtlsField.RECEIVE, MbedtlsField.RECEIVE_TIMEOUT)
_OF_SOCKETS = {
    "mbedtls_net_send": MbedtlsField.NET_SEND,
    "mbedtls_net_recv": MbedtlsField.NET_RECEIVE,
    "mbedtls_net_recv_timeout": MbedtlsField.NET_RECEIVE_TIMEOUT,
}


def connection_offsets(image: Image) -> dict[str, int]:
    """ "server", where a configuration has the side, and "server_bits", which are set for a server; empty if unclear."""
    endpoint = _endpoint(image)
    return {"server": endpoint[1], "server_bits": _SERVER} if endpoint else {}


def numbers(image: Image) -> tuple[int, ...]:
    """The numbers of MbedtlsField, in their order; 0 for what isn't known."""
    values: dict[MbedtlsField, int] = {**_state(image), **_transport(image)}
    if endpoint := _endpoint(image):
        values[MbedtlsField.CONFIGURATION] = endpoint[0]
    if (version := _version(image)) is not None:
        values[MbedtlsField.MAJOR] = version[1]
    return tuple(values.get(field, 0) for field in MbedtlsField)


def major_version(image: Image) -> int:
    """2 or 3, as the library's contexts keep versions; 0 if unclear."""
    version = _version(image)
    return version[1] if version else 0


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The paths by the label's name; a label whose path is uncertain is absent.

    "version" is the number that mbedtls_ssl_get_version looks at, "cipher" TLS' own; "alpn" leads to a text that a zero byte
    ends; "descriptor" is that of a socket where the functions that read and write are the library's own for these. "alert" is
    the one of a message that was read last, where that is one.
    """
    version, protocol = _version(image), field_returned(image, "mbedtls_ssl_get_alpn_protocol", 1)
    paths = {
        "version": FieldPath((version[0],), _INTEGER) if version else None,
        "cipher": _cipher(image),
        "alpn": FieldPath(protocol, _POINTER) if protocol else None,
        "descriptor": _descriptor(image),
        "alert": _alert(image),
    }
    return {name: path for name, path in paths.items() if path}


def transport_pointers(image: Image) -> Mapping[MbedtlsField, int]:
    """The offsets in a context of the functions by which it writes and reads; empty if unclear."""
    places = _set_by_bio(image)
    return {field: places[number] for number, field in enumerate(_FUNCTIONS, 1)} if places else {}


def _follow(image: Image, name: str, case: Assumptions) -> Evaluation | None:
    function = image.function(name)
    return followed_in(image, function.address, case) if function else None


def _of_context(image: Image, name: str, fields: Mapping[tuple[int, ...], Value] = _NOTHING) -> Evaluation | None:
    """The evaluation of a function that is called with a context."""
    return _follow(image, name, Assumptions({"rdi": _CONTEXT}, fields))


def _small(*offsets: int) -> bool:
    return all(0 <= offset < _MAX_OFFSET for offset in offsets)


def _endpoint(image: Image) -> tuple[int, int] | None:
    """The offset of the configuration in a context, and of the side in there, which mbedtls_ssl_conf_endpoint sets and a step
    looks at."""
    arguments: dict[str, Value] = {"rdi": _CONTEXT, "rsi": _SERVER}
    setting, step = _follow(image, "mbedtls_ssl_conf_endpoint", Assumptions(arguments)), _of_context(image, STEP)
    stores = {place.offset for place, value in setting.stores if value == _SERVER} if setting else set()
    if len(stores) != 1 or step is None:
        return None
    side = stores.pop()
    read = {field.path for field in step.fields if len(field.path) == 2 and field.path[1] == side and field.size == 1}
    path = read.pop() if len(read) == 1 else None
    return (path[0], path[1]) if path and _small(*path) else None


def _state(image: Image) -> dict[MbedtlsField, int]:
    """The offset of a handshake's state in a context, and the state with which mbedtls_ssl_handshake has nothing to do."""
    read = _of_handshake(image, _NOTHING)
    offsets = {field.path[0] for field in read.fields if len(field.path) == 1 and field.size == _INTEGER} if read else set()
    over = {offset: states for offset in offsets if len(states := _states_over(image, offset)) == 1}
    if len(over) != 1:
        return {}
    ((offset, (state,)),) = over.items()
    return {MbedtlsField.STATE: offset, MbedtlsField.OVER: state} if _small(offset) else {}


def _states_over(image: Image, offset: int) -> list[int]:
    """The states, one at `offset`, in which a call takes no step, and succeeds."""
    return [state for state in range(_MOST_STATES) if _is_over(_of_handshake(image, {(offset,): state}))]


def _is_over(evaluation: Evaluation | None) -> bool:
    return evaluation is not None and 0 in evaluation.results and _STOPS not in evaluation.results


def _of_handshake(image: Image, fields: Mapping[tuple[int, ...], Value]) -> Evaluation | None:
    return _follow(image, "mbedtls_ssl_handshake", Assumptions({"rdi": _CONTEXT}, fields, calls={STEP: _STOPS}))


def _version(image: Image) -> tuple[int, int] | None:
    """The offset of the version in a context, and the major version of the Mbed TLS that keeps it so."""
    read = _of_context(image, "mbedtls_ssl_get_version")
    offsets = {field.path[0] for field in read.fields if len(field.path) == 1 and field.size == _INTEGER} if read else set()
    if len(offsets) != 1 or not _small(offset := offsets.pop()):
        return None
    majors = [major for major, number in _TLS_1_2.items() if _calls_tls_1_2(image, offset, number)]
    return (offset, majors[0]) if len(majors) == 1 else None


def _calls_tls_1_2(image: Image, offset: int, number: int) -> bool:
    evaluation = _of_context(image, "mbedtls_ssl_get_version", {(offset,): number})
    results = evaluation.results if evaluation else []
    return "TLSv1.2" in {readable(image, value) for value in results if isinstance(value, int)}


def _cipher(image: Image) -> FieldPath | None:
    """The number that mbedtls_ssl_get_ciphersuite has named."""
    evaluation = _of_context(image, "mbedtls_ssl_get_ciphersuite")
    named = {call.arguments[0] for call in evaluation.calls} if evaluation else set()
    number = named.pop() if len(named) == 1 else None
    if not isinstance(number, LoadedField) or len(number.path) != 2 or number.size != _INTEGER or not _small(*number.path):
        return None
    return FieldPath(number.path, _INTEGER)


def _set_by_bio(image: Image) -> list[int] | None:
    """The offsets in a context of what mbedtls_ssl_set_bio is called with behind it, in its order."""
    values = [SymbolicAddress(f"value {number}", 0) for number in range(4)]
    arguments: dict[str, Value] = {"rdi": _CONTEXT, **dict(zip(("rsi", "rdx", "rcx", "r8"), values, strict=True))}
    evaluation = _follow(image, "mbedtls_ssl_set_bio", Assumptions(arguments))
    stores = {value: place.offset for place, value in evaluation.stores if place.base == _CONTEXT.base} if evaluation else {}
    places = [stores.get(value, -1) for value in values]
    return places if evaluation and len(evaluation.stores) == len(values) and _small(*places) else None


def _transport(image: Image) -> dict[MbedtlsField, int]:
    """The offsets of the functions in a context, and how far the library's own for sockets are from the first of them."""
    addresses = {field: function.address for name, field in _OF_SOCKETS.items() if (function := image.function(name))}
    pointers = transport_pointers(image)
    distances = {field: address - min(addresses.values()) for field, address in addresses.items()}
    if len(distances) != len(_OF_SOCKETS) or not pointers or not _small(*distances.values()):
        return {}
    return {**pointers, **distances}


def _descriptor(image: Image) -> FieldPath | None:
    """The first word of an mbedtls_net_context, to which a context leads where it reads from one."""
    places = _set_by_bio(image)
    return FieldPath((places[0], 0), _INTEGER) if places and _transport(image) else None


def _alert(image: Image) -> FieldPath | None:
    """The second byte of the message that mbedtls_ssl_handle_message_type looks into: an alert's first one is its level."""
    evaluation = _of_context(image, "mbedtls_ssl_handle_message_type")
    read = {field.path for field in evaluation.fields if len(field.path) == 2 and field.size == 1} if evaluation else set()
    messages = {path[0] for path in read if (path[0], 0) in read and (path[0], 1) in read}
    message = messages.pop() if len(messages) == 1 else None
    return FieldPath((message, 1), 1) if message is not None and _small(message) else None
