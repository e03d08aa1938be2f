# SPDX-License-Identifier: Apache-2.0
"""The TLS stacks that are traced, and the implementations that are only recognised: the only list of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakSet

from ssllatency.stacks.base import Implementation, Stack
from ssllatency.stacks.boringssl.stack import BoringSsl
from ssllatency.stacks.by_name import BY_NAME
from ssllatency.stacks.gnutls.stack import GnuTls
from ssllatency.stacks.go.stack import Go
from ssllatency.stacks.mbedtls.stack import MbedTls
from ssllatency.stacks.openssl.stack import OpenSsl
from ssllatency.stacks.rustls.implementation import Rustls
from ssllatency.stacks.rustls.stack import RustlsFunctions
from ssllatency.stacks.s2n.stack import S2n
from ssllatency.stacks.wolfssl.stack import WolfSsl

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

# A library comes after the one that it descends from, with whose functions' names it would be taken for that.
STACKS: tuple[Stack, ...] = (OpenSsl(), BoringSsl(), Go(), GnuTls(), MbedTls(), RustlsFunctions(), S2n(), WolfSsl())
UNTRACED: tuple[Implementation, ...] = (Rustls(), *BY_NAME)
LIBRARIES = {library.name: library for stack in STACKS for library in stack.libraries}
WAKES = tuple(library.wakes for library in LIBRARIES.values() if library.wakes)
KEYS = {callee: kind for stack in STACKS for callee, kind in stack.keys.items()}
NAMES = tuple(stack.name for stack in STACKS)
INSTEAD = {name: untraced.instead for untraced in UNTRACED for name in untraced.marks}
"""By the names that their files' marks show, the sentences of those that aren't traced."""
_looked_into: WeakSet[Image] = WeakSet()


def called(libraries: Iterable[str]) -> bool:
    """Whether applications call one of these libraries of a file."""
    return any(LIBRARIES[name].called for name in libraries)


def is_called(kind: str) -> bool:
    """Whether applications call the library that a file of this kind is; none is "static", or "" for no library."""
    return kind in LIBRARIES and LIBRARIES[kind].called


def has_lower(libraries: Iterable[str]) -> bool:
    """Whether one of these libraries of a file is the lower one, which has BIOs and errors."""
    return any(LIBRARIES[name].lower for name in libraries)


def libraries_by_symbols(image: Image) -> tuple[str, ...]:
    """The libraries that the file is or, where it is statically linked, holds, as its symbols tell."""
    libraries = LIBRARIES.values()
    shown = tuple(library.name for library in libraries if any(image.function(name) for name in library.functions))
    hinted = next((library for library in libraries if image.soname in library.sonames), None)
    if hinted and hinted.name not in shown and image.function(hinted.always):
        return (*shown, hinted.name)
    return shown


def _name_functions(image: Image) -> None:
    """Has a stack name its functions in an image whose symbols name none that applications call; once for each image. Names
    with which it wouldn't recognise the image aren't kept."""
    if image in _looked_into:
        return
    _looked_into.add(image)
    if called(libraries_by_symbols(image)):
        return
    for stack in STACKS:
        if functions := stack.unnamed_functions(image):
            image.name_functions(functions)
            if stack.recognises(image):
                return
            image.name_functions({})


def libraries_in(image: Image) -> tuple[str, ...]:
    """The libraries of the image by symbols, or else by tables of its own, or by what else tells its functions."""
    _name_functions(image)
    return libraries_by_symbols(image) or next(filter(None, (stack.own_libraries(image) for stack in STACKS)), ())


def stack_of(image: Image) -> Stack:
    """The stack whose functions the image has."""
    _name_functions(image)
    by_symbols = bool(libraries_by_symbols(image))
    candidates = (stack for stack in reversed(STACKS) if stack.has_symbols or not by_symbols)
    return next((stack for stack in candidates if stack.recognises(image)), STACKS[0])


def stack_named(name: str) -> Stack:
    """The stack of this name; the first for "", as plans of files without TLS have it."""
    return next((stack for stack in STACKS if stack.name == name), STACKS[0])
