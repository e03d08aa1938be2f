# SPDX-License-Identifier: Apache-2.0
"""The descriptor in a BIO for sockets, in an OpenSSL without symbols: it leads to a connection's port and peer, and to when
bytes arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress
from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.stacks.openssl.accessors import BIO_TYPE_SOCKET

CONTROLS = "BIO_ctrl"
"""What hands commands to the function for them in the BIO's table, and raises an error where there is none."""
_NAME = b"socket"
_MOST_NAMES = 16  # places of it that are looked for
_GET_FD = 105  # BIO_C_GET_FD: include/openssl/bio.h
_FIRST_SLOT, _MOST_SLOTS, _POINTER = 16, 10, 8  # of BIO_METHOD: its type and name come first
_MAX_OFFSET = 1 << 16
_BIO, _OUTPUT = SymbolicAddress("argument", 0), SymbolicAddress("output", 0)


def socket_offsets(image: Image, functions: Mapping[str, Function]) -> dict[str, int]:
    """Return what bio_offsets() of named accessors does, by the one table of methods that is for sockets; empty where that
    isn't clear."""
    try:
        descriptors = set(_descriptors(image))
        ((slot, descriptor),) = descriptors if len(descriptors) == 1 else [(0, 0)]
        method = _method(image, functions[CONTROLS], slot) if slot and CONTROLS in functions else None
    except (Unplannable, ElfError):
        return {}
    return {} if method is None else {"bio_method": method, "bio_descriptor": descriptor}


def _descriptors(image: Image) -> Iterator[tuple[int, int]]:
    """The slots of such tables whose function stores a number of the BIO for BIO_C_GET_FD, each with that number's field."""
    tables = {place - _POINTER for text in islice(image.find_string(_NAME), _MOST_NAMES) for place in image.pointers_to(text)}
    for table in sorted(table for table in tables if image.constant(table, 4) == BIO_TYPE_SOCKET):
        for slot in range(_FIRST_SLOT, _FIRST_SLOT + _MOST_SLOTS * _POINTER, _POINTER):
            target = image.pointer(table + slot)
            if target and image.executable(target):
                asked = Assumptions({"rdi": _BIO, "rsi": _GET_FD, "rcx": _OUTPUT})
                values = {value for place, value in followed_in(image, target, asked).stores if place == _OUTPUT}
                yield from ((slot, path[0]) for path in map(_number, values) if len(values) == 1 and path)


def _number(value: object) -> tuple[int, ...]:
    """The path of a number in the BIO; empty for another value."""
    known = isinstance(value, LoadedField) and value.whole and value.size == 4 and len(value.path) == 1
    return value.path if known and isinstance(value, LoadedField) and 0 <= value.path[0] < _MAX_OFFSET else ()


def _method(image: Image, controls: Function, slot: int) -> int | None:
    """The field of a BIO that leads to its table, through which it is handed on."""
    calls = followed_in(image, controls.address, Assumptions({"rdi": _BIO})).calls
    called = {call.target.path for call in calls if isinstance(call.target, LoadedField) and call.arguments[0] == _BIO}
    methods = {path[0] for path in called if len(path) == 2 and path[1] == slot}
    method = methods.pop() if len(methods) == 1 else None
    return method if method is not None and 0 <= method < _MAX_OFFSET else None
