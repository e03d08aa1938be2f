# SPDX-License-Identifier: Apache-2.0
"""Reads the events of a Flight Recorder file (JFR 2.x), which its owner may have made up: ValueError for what isn't one.

A file is a row of chunks, each with metadata (which events there are, and their fields), constants that the fields refer to by
number, and events. Integers are LEB128, unless they are in the header of a chunk. Nothing is trusted: each length is checked
against the bytes that are left, each value takes a byte at least, and constants, which may refer to one another, are looked up
only when they are asked for: so time and memory grow with the file alone, and bounding them is for the caller.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from ssllatency.data_class import dataclass

_HEADER = struct.Struct(">4sHHQQQQQQQI")
_METADATA, _CHECKPOINT = 0, 1
_STRING, _FLOATS = "java.lang.String", {"float": struct.Struct(">f"), "double": struct.Struct(">d")}
_BYTES, _NUMBERS = ("boolean", "byte"), ("char", "short", "int", "long")
_MOST_DEPTH = 16  # of values within values
_MOST_REFERENCES = 4  # from one to the next, until there is a value
_LONG_MIN = -(1 << 63)
_LATIN, _UTF_16 = codecs.lookup("latin-1"), codecs.lookup("utf-16-le")  # loaded here: a confined reader opens no file


class Fields:
    """The values of an event, or of a structure within it."""

    def __init__(self, values: Mapping[str, Any], constants: Mapping[tuple[int, int], Any]) -> None:
        self._values, self._constants = values, constants

    def get(self, name: str) -> str | int | float | Fields | None:
        """The field of this name: None as well for a list, for a constant that isn't there, and for one that is a row of
        references."""
        value = self._values.get(name)
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, _Constant):
                break
            value = self._constants.get((value.type, value.key))
        if isinstance(value, dict):
            return Fields(value, self._constants)
        return value if isinstance(value, str | int | float) else None


@dataclass(frozen=True)
class Event:
    """An event of a chunk."""

    name: str
    fields: Fields


@dataclass(frozen=True)
class Chunk:
    """A chunk: when it was begun, in nanoseconds since 1970, the ticks of a second, and the events that were asked for."""

    start_ns: int
    ticks_per_s: int
    events: tuple[Event, ...]

    def nanoseconds(self, ticks: object) -> int | None:
        """A time span that is given in ticks; None where it is missing."""
        known = isinstance(ticks, int) and ticks != _LONG_MIN and ticks >= 0
        return int(ticks) * 10**9 // self.ticks_per_s if known else None  # type: ignore[call-overload]


@dataclass(frozen=True)
class _Field:
    name: str
    type: int
    constant: bool
    array: bool


@dataclass(frozen=True)
class _Class:
    name: str
    fields: tuple[_Field, ...]


@dataclass(frozen=True)
class _Constant:
    """A reference to the constant of a class that has this number."""

    type: int
    key: int


@dataclass(frozen=True)
class _Element:
    name: str
    attributes: dict[str, str]
    children: list[_Element]

    def all(self) -> Iterator[_Element]:
        yield self
        for child in self.children:
            yield from child.all()


class _Bytes:
    """A place in the bytes of a chunk, which moves on as they are read."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        if not 0 <= at <= end <= len(data):
            raise ValueError("a part lies outside of the file")
        self._data, self.at, self._end = data, at, end

    def number(self) -> int:
        """A LEB128 number: nine bytes at most, of which the last has eight bits."""
        value = shift = 0
        while True:
            byte = self.byte()
            if shift == 56:
                return value | byte << 56
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def long(self) -> int:
        """A LEB128 number with its sign."""
        value = self.number()
        return value - (1 << 64) if value >= 1 << 63 else value

    def byte(self) -> int:
        if self.at >= self._end:
            raise ValueError("a part is cut short")
        self.at += 1
        return self._data[self.at - 1]

    def piece(self, length: int) -> bytes:
        if length > self._end - self.at:
            raise ValueError("a part is cut short")
        self.at += length
        return self._data[self.at - length : self.at]

    def count(self) -> int:
        """A number of things that take a byte each at least."""
        number = self.number()
        if number > self._end - self.at:
            raise ValueError("there are more things than bytes")
        return number

    def text(self, strings: int) -> str | _Constant | None:
        """A text in one of five encodings; `strings` is the class whose constants it may be."""
        encoding = self.byte()
        if encoding == 2:
            return _Constant(strings, self.number())
        if encoding == 3:
            return self.piece(self.count()).decode(errors="replace")
        if encoding == 4:
            units = [self.number() for _ in range(self.count())]
            return _UTF_16.decode(struct.pack(f"<{len(units)}H", *(unit & 0xFFFF for unit in units)), "replace")[0]
        if encoding == 5:
            return _LATIN.decode(self.piece(self.count()))[0]
        if encoding > 5:
            raise ValueError("a text is in an unknown encoding")
        return "" if encoding else None


def read_chunks(data: bytes, wanted: frozenset[str]) -> Iterator[Chunk]:
    """The chunks of a file, each with its events of these names."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise ValueError("the header of a chunk is cut short")
        magic, major, _, size, _, metadata, start_ns, _, _, ticks_per_s, _ = _HEADER.unpack_from(data, at)
        if magic != b"FLR\0" or major != 2 or not _HEADER.size <= size <= len(data) - at or not ticks_per_s:
            raise ValueError("it is no recording of this version, or one that wasn't finished")
        reader = _Reader(data, at, at + size, metadata)
        yield Chunk(start_ns, ticks_per_s, tuple(reader.events(wanted)))
        at += size


class _Reader:
    """Reads one chunk, which lies between these places."""

    def __init__(self, data: bytes, start: int, end: int, metadata: int) -> None:
        self._data, self._start, self._end = data, start, end
        self._classes = _classes(_Bytes(data, start + metadata, end))
        self._strings = next((number for number, known in self._classes.items() if known.name == _STRING), -1)
        self._constants: dict[tuple[int, int], Any] = {}

    def events(self, wanted: frozenset[str]) -> list[Event]:
        """Its events of these names, with the constants that they refer to."""
        places = [(number, at) for number, at in self._parts() if self._keeps(number, at, wanted)]
        found = []
        for number, place in places:
            known = self._classes[number]
            found.append(Event(known.name, Fields(self._structure(known, place, 0), self._constants)))
        return found

    def _parts(self) -> Iterator[tuple[int, _Bytes]]:
        """The numbers of the chunk's events, and where their fields begin."""
        at = self._start + _HEADER.size
        while at < self._end:
            head = _Bytes(self._data, at, self._end)
            size, number = head.number(), head.number()
            if not head.at - at <= size <= self._end - at:
                raise ValueError("an event has an impossible size")
            yield number, _Bytes(self._data, head.at, at + size)
            at += size

    def _keeps(self, number: int, place: _Bytes, wanted: frozenset[str]) -> bool:
        """Whether it is an event that is wanted. Constants are taken."""
        if number == _CHECKPOINT:
            self._take_constants(place)
        return number > _CHECKPOINT and number in self._classes and self._classes[number].name in wanted

    def _take_constants(self, place: _Bytes) -> None:
        for _ in range(3):  # when, how long, where the one before is
            place.number()
        place.byte()
        for _ in range(place.count()):
            number = place.number()
            known = self._classes.get(number)
            if known is None:
                raise ValueError("constants are of an unknown class")
            for _ in range(place.count()):
                key = place.number()
                self._constants[number, key] = self._value(number, place, 0)

    def _structure(self, known: _Class, place: _Bytes, depth: int) -> dict[str, Any]:
        return {field.name: self._field(field, place, depth) for field in known.fields}

    def _field(self, field: _Field, place: _Bytes, depth: int) -> Any:
        if field.array:
            return [self._one(field, place, depth) for _ in range(place.count())]
        return self._one(field, place, depth)

    def _one(self, field: _Field, place: _Bytes, depth: int) -> Any:
        return _Constant(field.type, place.number()) if field.constant else self._value(field.type, place, depth)

    def _value(self, number: int, place: _Bytes, depth: int) -> Any:
        known = self._classes.get(number)
        if known is None or depth > _MOST_DEPTH:
            raise ValueError("a value is of an unknown class, or too deep")
        if known.name == _STRING:
            return place.text(number)
        if known.name in _BYTES:
            return place.byte()
        if known.name in _NUMBERS:
            return place.long()
        if known.name in _FLOATS:
            form = _FLOATS[known.name]
            return form.unpack(place.piece(form.size))[0]
        if not known.fields:
            raise ValueError("a value takes no bytes")
        return self._structure(known, place, depth + 1)


def _classes(place: _Bytes) -> dict[int, _Class]:
    """The classes that the metadata describe, by number."""
    place.number()
    if place.number() != _METADATA:
        raise ValueError("there is no metadata where it should be")
    for _ in range(3):  # when, how long, its number
        place.number()
    strings = [text if isinstance(text := place.text(-1), str) else "" for _ in range(place.count())]
    described = (element for element in _element(place, strings, 0).all() if element.name == "class")
    return {_whole(element, "id"): _class(element) for element in described}


def _element(place: _Bytes, strings: list[str], depth: int) -> _Element:
    if depth > _MOST_DEPTH:
        raise ValueError("the metadata is too deep")

    def text() -> str:
        number = place.number()
        if number >= len(strings):
            raise ValueError("the metadata refers to a text that isn't there")
        return strings[number]

    name = text()
    attributes = {text(): text() for _ in range(place.count())}
    return _Element(name, attributes, [_element(place, strings, depth + 1) for _ in range(place.count())])


def _class(element: _Element) -> _Class:
    fields = [child for child in element.children if child.name == "field"]
    return _Class(element.attributes.get("name", ""), tuple(map(_of_field, fields)))


def _of_field(element: _Element) -> _Field:
    attributes = element.attributes
    constant, array = attributes.get("constantPool") == "true", attributes.get("dimension", "0") != "0"
    return _Field(attributes.get("name", ""), _whole(element, "class"), constant, array)


def _whole(element: _Element, name: str) -> int:
    text = element.attributes.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError("the metadata has no number where there should be one")
    return int(text)
