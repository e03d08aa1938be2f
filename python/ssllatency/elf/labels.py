# SPDX-License-Identifier: Apache-2.0
"""Where a connection's labels lie, its version, cipher, group and their like, read out of the library's own accessors.

Every place is counted from the SSL * of a plain connection, as the application has it. It comes from the file's code alone,
never from a table of versions; what the code doesn't show, or shows in a way that leaves room for doubt, is absent.
"""

from __future__ import annotations

from dataclasses import dataclass

from ssllatency.elf.evaluate import returned
from ssllatency.elf.image import Image
from ssllatency.elf.values import Field, Place

_CONNECTION = Place("argument", 0)
_MAX_OFFSET = 1 << 16
# By name: how many pointers from the SSL * the value lies, the accessors that return it, and its sizes.
_RETURNED = {
    "version": (1, ("SSL_version",), (4,)),
    "in_init": (1, ("SSL_in_init",), (4,)),
    "hand_state": (1, ("SSL_get_state",), (4,)),
    "resumed": (1, ("SSL_session_reused",), (4,)),
    "verify_mode": (1, ("SSL_get_verify_mode",), (4,)),
    "verify_result": (1, ("SSL_get_verify_result",), (8,)),
    "ctx": (1, ("SSL_get_SSL_CTX",), (8,)),
    "session": (1, ("SSL_get_session",), (8,)),
    "peer_certificate": (2, ("SSL_get0_peer_certificate", "SSL_get_peer_certificate"), (8,)),
}


@dataclass(frozen=True)
class FieldPath:
    """Where a value lies: `offsets` from the SSL *, each but the last leading to a pointer that is followed; `size` in bytes of
    the value."""

    offsets: tuple[int, ...]
    size: int


class Unclear(Exception):
    """A label's place can't be told; the text says why."""


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The places by the label's name; a name whose place can't be told surely is absent."""
    return {name: found for name, found in _findings(image).items() if isinstance(found, FieldPath)}


def label_problems(image: Image) -> dict[str, str]:
    """Why the others are absent, a phrase each, by the label's name."""
    return {name: found for name, found in _findings(image).items() if isinstance(found, str)}


def _findings(image: Image) -> dict[str, FieldPath | str]:
    findings: dict[str, FieldPath | str] = {}
    for name, (depth, accessors, sizes) in _RETURNED.items():
        try:
            findings[name] = _returned(image, accessors, depth, sizes)
        except Unclear as problem:
            findings[name] = str(problem)
    return findings


def _returned(image: Image, accessors: tuple[str, ...], depth: int, sizes: tuple[int, ...]) -> FieldPath:
    function = next((found for name in accessors if (found := image.function(name))), None)
    if function is None:
        raise Unclear(f"the library has no {' or '.join(accessors)}")
    values = returned(image, function.address, rdi=_CONNECTION)
    fields = {each for each in values if isinstance(each, Field) and each.path != (0,)}
    fields = fields or {each for each in values if isinstance(each, Field)}
    field = fields.pop() if len(fields) == 1 else None
    if field is None or len(field.path) != depth or not field.whole or field.size not in sizes:
        raise Unclear(f"{function.name} doesn't simply return it")
    return FieldPath(field.path, field.size)
