# SPDX-License-Identifier: Apache-2.0
"""Places of what the extensions for a server's name and an application's protocol have brought, read out of the accessors. A
session keeps what each extension has behind a pointer, which one inner function hands out for all of them, by their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress, Value
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image

_SESSION, _OUTPUT = SymbolicAddress("argument", 0), SymbolicAddress("output", 0)
_THIRD = (2, 0)  # an output: the word to which the third argument points
_MAX_OFFSET = 1 << 16
_Outputs = Mapping[int, Mapping[tuple[int, int], Value]]


@dataclass(frozen=True)
class _ExtensionCall:
    """A call of an inner function, at `target`, which stores for its caller what a session has of the extension `number`."""

    target: int
    number: int

    def followed(self, image: Image, outputs: _Outputs = MappingProxyType({})) -> Evaluation:
        """The evaluation of the inner function."""
        arguments: Mapping[str, Value] = {"rdi": _SESSION, "rsi": self.number, "rdx": _OUTPUT}
        return followed_in(image, self.target, Assumptions(arguments, outputs=outputs))


def extension_paths(image: Image) -> dict[str, FieldPath]:
    """The paths "server_name" and "server_name_length", "alpn" and "alpn_length"; none that the code doesn't show for certain.

    The server's name isn't ended by a zero byte. Its length is in the network's order.
    """
    protocol = _extension_call(_accessor(image, "gnutls_alpn_get_selected_protocol"))
    name = _extension_call(_accessor(image, "gnutls_server_name_get"))
    inner = _extension_call(name.followed(image)) if name else None
    if protocol is None or name is None or inner is None or inner.target != protocol.target:
        return {}
    return {**_protocol_paths(image, protocol), **_name_paths(image, name, inner)}


def _accessor(image: Image, name: str, outputs: _Outputs = MappingProxyType({})) -> Evaluation | None:
    function = image.function(name)
    case = Assumptions({"rdi": _SESSION, "rsi": _OUTPUT}, outputs=outputs)
    return followed_in(image, function.address, case) if function else None


def _extension_call(evaluation: Evaluation | None) -> _ExtensionCall | None:
    """The one such call that is made for a word of the caller's stack."""
    calls = {
        _ExtensionCall(call.target, number)
        for call in (evaluation.calls if evaluation else ())
        if isinstance(call.target, int) and call.arguments[0] == _SESSION and isinstance(number := call.arguments[1], int)
        if isinstance(output := call.arguments[2], SymbolicAddress) and output.base == "stack"
    }
    return calls.pop() if len(calls) == 1 else None


def _pointer(image: Image, call: _ExtensionCall) -> LoadedField | None:
    """The pointer in the session that is handed out."""
    stored = {value for place, value in call.followed(image).stores if place == _OUTPUT}
    pointer = stored.pop() if len(stored) == 1 else None
    if not isinstance(pointer, LoadedField) or not pointer.is_pointer or len(pointer.path) != 1:
        return None
    return pointer if 0 < pointer.path[0] < _MAX_OFFSET else None


def _protocol_paths(image: Image, call: _ExtensionCall) -> dict[str, FieldPath]:
    """The protocol's text and its length, which the accessor stores side by side."""
    pointer = _pointer(image, call)
    followed = _accessor(image, "gnutls_alpn_get_selected_protocol", {call.target: {_THIRD: pointer}})
    stores = {(place.offset, value) for place, value in followed.stores if place.base == _OUTPUT.base} if followed else set()
    text, length = dict(stores).get(0), dict(stores).get(8)
    if pointer is None or len(stores) != 2 or not isinstance(text, LoadedField) or not isinstance(length, LoadedField):
        return {}
    beside = text.path[:-1] == length.path[:-1] == pointer.path and text.path != length.path
    if not beside or (text.size, length.size) != (8, 4):
        return {}
    return {"alpn": FieldPath(text.path, text.size), "alpn_length": FieldPath(length.path, length.size)}


def _name_paths(image: Image, call: _ExtensionCall, inner: _ExtensionCall) -> dict[str, FieldPath]:
    """The name's length and the name, which lie one behind the other where the pointer leads."""
    pointer = _pointer(image, inner)
    if pointer is None:
        return {}
    followed = call.followed(image, {inner.target: {_THIRD: pointer}})
    length = LoadedField((*pointer.path, 0), 2)
    texts = {value for place, value in followed.stores if place == _OUTPUT}
    if length not in followed.fields or texts != {SymbolicAddress(pointer, length.size)}:
        return {}
    return {
        "server_name": FieldPath((*pointer.path, length.size), 0),
        "server_name_length": FieldPath(length.path, length.size),
    }
