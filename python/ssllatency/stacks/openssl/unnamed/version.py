# SPDX-License-Identifier: Apache-2.0
"""The field of a connection that holds its version, in an OpenSSL without symbols."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.source_files import references

_VERSIONS = (("TLSv1.3", 0x304), ("TLSv1.2", 0x303))
_CONNECTION = SymbolicAddress("argument", 0)
_SMALL, _MOST_PLACES = 256, 256  # bytes of a function; places


def version_field(image: Image, within: Range) -> int:
    """Return the offset of the field of which SSL_get_version, in this range, returns the name. It tells whether an SSL begins
    with its type, which has to be looked at then: without it nothing is taken. Unplannable where it isn't clear."""
    naming = {place for text, *_ in _VERSIONS for place in image.find_string(text.encode())}
    places = islice(references(image, naming), _MOST_PLACES)
    functions = {bounds for place, _ in places if (bounds := image.function_bounds(place))}
    converting = [start for start, end in functions if end - start < _SMALL and _names_versions(image, {"rdi": None}, start)]
    sites = calls_to(image, converting, within)
    callers = {image.function_bounds(site) for places in sites.values() for site in places}
    small = [each for each in {*functions, *callers} if each and each[1] - each[0] < _SMALL]
    paths = {path for each in small for path in _versions_in(image, each[0], converting)}
    if len(paths) != 1:
        raise Unplannable("SSL_get_version, which tells where a connection has its version, isn't found")
    return paths.pop()[0]


def _names_versions(image: Image, arguments: Mapping[str, Value], start: int, path: tuple[int, ...] = ()) -> bool:
    """Whether the function returns the names of versions: of its argument, or of the field there."""
    for text, version in _VERSIONS:
        fields = {path: version} if path else {}
        given = {name: version if value is None else value for name, value in arguments.items()}
        results = followed_in(image, start, Assumptions(given, fields)).results
        if text not in {image.text(value) for value in results if isinstance(value, int)}:
            return False
    return True


def _versions_in(image: Image, start: int, converting: Collection[int]) -> set[tuple[int, ...]]:
    """The fields of a connection of which the function returns the version's name, by itself or by such a function. That
    of a cipher has a text for NULL as well."""
    nothing = followed_in(image, start, Assumptions({"rdi": 0}))
    converts = any(call.target in converting for call in nothing.calls)
    if not converts and any(isinstance(value, int) and image.text(value) for value in nothing.results):
        return set()
    followed = followed_in(image, start, Assumptions({"rdi": _CONNECTION}))
    passed = {call.arguments[0] for call in followed.calls if call.target in converting}
    paths = {value.path for value in passed if isinstance(value, LoadedField) and value.size == 4 and len(value.path) == 1}
    own = {found.path for found in followed.fields if found.size == 4 and len(found.path) == 1}
    texts = any(isinstance(value, int) and image.text(value) in dict(_VERSIONS) for value in followed.results)
    return paths | {path for path in own if texts and _names_versions(image, {"rdi": _CONNECTION}, start, path)}
