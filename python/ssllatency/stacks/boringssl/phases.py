# SPDX-License-Identifier: Apache-2.0
"""The phases of handshakes that are whole functions of libssl's in BoringSSL and AWS-LC: those of key shares, and the checks of
the peer's certificates and of its signature.

libssl makes no call of a key exchange's function by its name. A key share is an object of C++, whose functions are called
through the table of its class: two that free it, one that returns the group's number in TLS, then one that makes a key, one
that answers the peer's key, and one that takes the peer's answer. The tables are found by those functions in them that raise
errors in ssl_key_share.cc. What isn't clear there is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in, returned
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress
from ssllatency.elf.image import ElfError, Function, Image, Range
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors, errors_of
from ssllatency.stacks.found_functions import FOUND
from ssllatency.stacks.phases import Phase, PhaseFunction

_KEY_SHARES, _PRIVATE_KEY = "ssl_key_share", "ssl_privkey"
_WRONG_SIGNATURE_TYPE, _KEY_OPERATION_FAILED = 245, 287  # of openssl/ssl.h
_NEAR = 1 << 16  # bytes between functions of one source file
_POINTER = 8
_GROUP_ID = 2
# By its place in the table, a function's name in BoringSSL's source of today. AWS-LC's names are Offer, Accept and Finish.
_SLOTS = {3: "SSLKeyShare::Generate", 4: "SSLKeyShare::Encap", 5: "SSLKeyShare::Decap"}
_ANSWERS = 4
# endbr64 and a frame, or not; mov $number, %ax, which leaves the rest of the register as it was; ret.
_RETURNS_WORD = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?(?:\x55\x48\x89\xe5)?\x66\xb8(..)\x5d?\xc3", re.DOTALL)
_LONGEST_GETTER = 16
_X25519, _LARGEST_GROUP = 29, 0xFFFF
_OBJECT = SymbolicAddress("argument", 0)


def phase_functions(image: Image) -> list[PhaseFunction]:
    """Those of the image, as far as its code shows them."""
    try:
        errors = errors_of(image)
    except (Unplannable, ElfError):
        return []
    checks = {"ssl_verify_peer_cert": errors.checking_certificates(), "ssl_public_key_verify": _verifying(image, errors)}
    found = [(Phase.PEER_VERIFICATION, name, each[0][0]) for name, each in checks.items() if len(each) == 1]
    with suppress(ElfError):
        found += _of_key_shares(image, errors)
    sizes = {start: bounds[1] - start for *_, start in found if (bounds := image.function_bounds(start))}
    return [PhaseFunction(phase, Function(name, start, sizes[start], FOUND)) for phase, name, start in found if start in sizes]


def _verifying(image: Image, errors: RaisedErrors) -> list[Range]:
    """The functions that look at the kind of a signature as the one does that signs, by one that both call, and don't sign."""
    raising = errors.of(_PRIVATE_KEY)
    found: list[Range] = []
    for function in (each for each, reasons in raising.items() if _WRONG_SIGNATURE_TYPE in reasons):
        sites = calls_to(image, {function[0]}, (function[0] - _NEAR, function[1] + _NEAR))[function[0]]
        callers = {bounds for site in sites if (bounds := image.function_bounds(site))}
        others = [caller for caller in callers if caller not in raising and not image.is_part(caller[0])]
        found += others if any(_KEY_OPERATION_FAILED in raising.get(caller, ()) for caller in callers) else []
    return found


def _of_key_shares(image: Image, errors: RaisedErrors) -> list[tuple[Phase, str, int]]:
    """The functions of all groups, each once; none without a table of X25519, which each of these libraries has."""
    tables = {table for function in errors.of(_KEY_SHARES) for table in _tables_with(image, function[0])}
    groups = [group for table in tables for group in _groups(image, table)]
    if _X25519 not in groups:
        return []
    names = {
        image.pointer(table + _POINTER * slot): name
        for table in tables
        for slot, name in _SLOTS.items()
        if slot != _ANSWERS or not _only_calls_others(image, errors, table)
    }
    return [(Phase.KEY_EXCHANGE, name, start) for start, name in sorted(names.items(), key=str) if start is not None]


def _only_calls_others(image: Image, errors: RaisedErrors, table: int) -> bool:
    """Whether the function that answers does nothing but call the other two of its table, which are watched, directly or
    through it."""
    start, *others = (image.pointer(table + _POINTER * slot) or 0 for slot in (_ANSWERS, *(_SLOTS.keys() - {_ANSWERS})))
    bounds = image.function_bounds(start)
    called = {call.target for call in followed_in(image, start, Assumptions({"rdi": _OBJECT})).calls}
    direct = {call.target for call in errors.calls(bounds)} if bounds else set[int]()
    through = {LoadedField((0, _POINTER * slot)) for slot in _SLOTS if slot != _ANSWERS}
    return bool(called) and called <= {*others, *through} and direct <= set(others)


def _tables_with(image: Image, function: int) -> Iterator[int]:
    """The tables of key shares that have the function where one of _SLOTS is."""
    for place in image.pointers_to(function):
        for slot in _SLOTS:
            table = place - _POINTER * slot
            if _is_table(image, table):
                yield table


def _is_table(image: Image, table: int) -> bool:
    """Whether a class's table begins there, by the C++ ABI for Itanium, which is a key share's."""
    begins = image.constant(table - 2 * _POINTER, _POINTER) == 0 and not _begins_function(image, table - _POINTER)
    has_all = all(_begins_function(image, table + _POINTER * slot) for slot in range(max(_SLOTS) + 1))
    return begins and has_all and bool(_groups(image, table))


def _begins_function(image: Image, place: int) -> bool:
    address = image.pointer(place)
    bounds = image.function_bounds(address) if address is not None and image.executable(address) else None
    return bounds is not None and bounds[0] == address


def _groups(image: Image, table: int) -> list[int | LoadedField]:
    """The group's number that the table's function for it returns, or the object's field that holds it; none where that is
    unclear."""
    address = image.pointer(table + _POINTER * _GROUP_ID)
    if address is None:
        return []
    if match := _RETURNS_WORD.match(image.code(address, _LONGEST_GETTER)):
        return [int.from_bytes(match[1], "little")]
    values = returned(image, address, rdi=_OBJECT)
    groups = [value for value in values if _is_group(value)]
    return groups if len(values) == len(groups) == 1 else []  # type: ignore[return-value]


def _is_group(value: object) -> bool:
    if isinstance(value, LoadedField):
        return len(value.path) == 1 and value.size == 2
    return isinstance(value, int) and 0 < value <= _LARGEST_GROUP
