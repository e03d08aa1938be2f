# SPDX-License-Identifier: Apache-2.0
"""The functions, fields and labels of an OpenSSL 3 without symbols in an image, looked for once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from ssllatency.code.values import FieldPath
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Function, Image
from ssllatency.stacks.found_functions import FoundOnce
from ssllatency.stacks.openssl.unnamed.functions import MAX_OFFSET, NAMES, UnnamedOpenSslFunctions
from ssllatency.stacks.openssl.unnamed.labels import UnnamedLabels
from ssllatency.stacks.openssl.unnamed.sockets import socket_offsets


@dataclass(frozen=True)
class FoundOpenSsl:
    """Functions found in an image by name, those that do what `accessors` of these names do, why others weren't found, and the
    offsets and labels that they show; `bio` are those in a BIO for sockets."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    accessors: Mapping[str, Function] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, FieldPath] = field(default_factory=dict)
    bio: Mapping[str, int] = field(default_factory=dict)


def _look(image: Image) -> FoundOpenSsl:
    try:
        unnamed = UnnamedOpenSslFunctions(image)
        paths = UnnamedLabels(image, unnamed).paths
        offsets = {name: offset for name, offset in unnamed.offsets.items() if _possible([offset])}
        labels = {name: path for name, path in paths.items() if _possible(path.offsets)}
        bio = socket_offsets(image, unnamed.functions)
        return FoundOpenSsl(unnamed.functions, unnamed.accessors, unnamed.missing, offsets, labels, bio)
    finally:
        image.name_functions({})


_found = FoundOnce(_look, lambda why: FoundOpenSsl(missing=dict.fromkeys(NAMES, why)))


def found_in(image: Image) -> FoundOpenSsl:
    """Look for them in an image whose symbols name nothing, once."""
    return _found.look_in(image)


def _possible(offsets: Iterable[int]) -> bool:
    return all(0 <= offset < MAX_OFFSET for offset in offsets)


def named_in(image: Image) -> Mapping[str, Function]:
    """The functions and accessors that are found in an image, by the names under which they are read."""
    found = found_in(image)
    return {**found.accessors, **found.functions}


def known_of(image: Image) -> FoundOpenSsl:
    """Return what has been found in an image; nothing where its symbols tell all, so that nothing was looked for."""
    return _found.known_of(image) or FoundOpenSsl()
