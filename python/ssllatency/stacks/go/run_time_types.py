# SPDX-License-Identifier: Apache-2.0
"""The types of a Go executable as the program itself knows them at run time: found by package and name; the fields of a struct
with their offsets; and the itabs by which an interface value says what it holds.

A type is kept as soon as the program stores a value of it in an interface, as each *tls.Conn is in a net.Conn. Layouts:
internal/abi/type.go; before Go 1.21, runtime/type.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

from ssllatency.data_class import dataclass
from ssllatency.stacks.go.data import Data, varint
from ssllatency.stacks.go.module_data import ModuleData

MOST_FIELDS, MOST_ITABS = 1000, 16384
_MOST_NAMES, _MOST_USERS = 32, 4096  # places of one name; and of numbers that are its offset, of which few are in descriptors
_LONGEST_NAME = 127  # bytes: the length takes one byte
# In a type's descriptor: flags, kind, and the offset of its name.
_HASH, _FLAGS, _KIND, _NAME, _POINTER, _DESCRIPTOR = 16, 20, 23, 40, 44, 48  # and of the type of pointers to it, 0 for none
_KIND_MASK, _UNCOMMON, _EXTRA_STAR = 31, 1, 2
_FIELDS, _FIELD_COUNT = 56, 64  # of a struct
_FIELD = struct.Struct("<QQQ")  # name, type, offset: before Go 1.19 shifted left by one, for a flag
_POINTED_TO = 48
_METHODS, _METHOD_COUNT, _METHOD_SIZE = 56, 64, 8  # of an interface: each with the offsets of its name and of its type
MOST_METHODS = 1000
# In an itab: the interface, the type that implements it.
_ITAB_TYPE, _ITAB_HASH, _ITAB_METHODS = 8, 16, 24  # the second a copy of the type's; then the code of each method


class Kind(IntEnum):
    """Kinds of types, by Go's numbers (those that are asked for)."""

    UINT = 7
    UINT8 = 8
    INTERFACE = 20
    POINTER = 22
    STRUCT = 25


# What a descriptor has before the part that named types have: sizes by kind.
_SIZES = {Kind.INTERFACE: 80, Kind.POINTER: 56, Kind.STRUCT: 80}


@dataclass(frozen=True)
class StructField:
    """`offset` in bytes; `type`: the address of its type's descriptor."""

    offset: int
    type: int


class Types:
    """The types of an executable, by the addresses of their descriptors. ElfError from the constructor, and from methods, where
    they are damaged."""

    def __init__(self, data: Data, module: ModuleData) -> None:
        self._data = data
        self._start = module.types.address
        self._bytes = data.read(module.types.address, module.types.size)
        self._found: dict[tuple[str, str, Kind], int | None] = {}

    def find(self, package: str, name: str, kind: Kind = Kind.STRUCT) -> int | None:
        """The one type of this kind that is called `name` in the package with this path, "" for one that every program knows;
        None where there is none, or several. It is looked for once: a large program's types take a while to search."""
        key = (package, name, kind)
        if key not in self._found:
            self._found[key] = self._search(package, name, kind)
        return self._found[key]

    def _search(self, package: str, name: str, kind: Kind) -> int | None:
        prefix = f"{package.rsplit('/', 1)[-1]}." if package else ""
        found = [
            self._start + at
            for text in (f"{prefix}{name}", f"*{prefix}{name}")
            for at in self._called(text)
            if self._bytes[at + _KIND] & _KIND_MASK == kind
            and self._name(at) == f"{prefix}{name}"
            and self._package(at, kind) == package
        ]
        return found[0] if len(found) == 1 else None

    def _called(self, text: str) -> Iterator[int]:
        """Return where descriptors begin that have this name, in the bytes of types."""
        encoded = text.encode()
        pattern = bytes((len(encoded),)) + encoded if len(encoded) <= _LONGEST_NAME else b""
        for place in _places(self._bytes, pattern, _MOST_NAMES):
            for at in _places(self._bytes, struct.pack("<I", place - 1) if place else b"", _MOST_USERS):
                if at >= _NAME and (at - _NAME) % 8 == 0 and at - _NAME + _DESCRIPTOR <= len(self._bytes):
                    yield at - _NAME

    def name(self, address: int) -> str:
        """The type's name with its package's last word, as "tls.Conn"; "" where no descriptor is."""
        at = address - self._start
        return self._name(at) if 0 <= at <= len(self._bytes) - _DESCRIPTOR else ""

    def _name(self, at: int) -> str:
        offset = struct.unpack_from("<I", self._bytes, at + _NAME)[0]
        text = self._text(offset)
        return text[1:] if self._bytes[at + _FLAGS] & _EXTRA_STAR else text

    def _text(self, offset: int) -> str:
        """The name at an offset from the first type: flags, a length, and the text. "" where there is none."""
        size, start = varint(self._bytes, offset + 1) or (0, 0)
        return self._bytes[start : start + size].decode("utf-8", "replace") if 0 < size <= _LONGEST_NAME else ""

    def _package(self, at: int, kind: Kind) -> str | None:
        """The path of the package of a named type, None for another."""
        size = _SIZES.get(kind, _DESCRIPTOR)
        if not self._bytes[at + _FLAGS] & _UNCOMMON or at + size + 4 > len(self._bytes):
            return None
        offset = struct.unpack_from("<I", self._bytes, at + size)[0]
        return self._text(offset) if offset else ""

    def offset(self, package: str, name: str, field: str) -> int | None:
        """The offset of a field of the struct of that name; None where there is none, or several."""
        struct_ = self.find(package, name)
        found = self.fields(struct_).get(field) if struct_ is not None else None
        return found.offset if found else None

    def method_offset(self, package: str, interface: str, method: str) -> int | None:
        """The offset in an itab of the method of the interface of that name, whose methods are there in the same order; None
        where there is no such interface, or method."""
        type_ = self.find(package, interface, Kind.INTERFACE)
        names = self._methods(type_) if type_ is not None else []
        return _ITAB_METHODS + 8 * names.index(method) if names.count(method) == 1 else None

    def _methods(self, interface: int) -> list[str]:
        """The names of an interface's methods, in their order."""
        first, count = self._data.pointer(interface + _METHODS), self._data.number(interface + _METHOD_COUNT)
        if not 0 < count <= MOST_METHODS:
            return []
        return [self._text(self._data.number(first + index * _METHOD_SIZE, 4)) for index in range(count)]

    def size(self, address: int) -> int:
        """The bytes of a value of the type."""
        return self._data.number(address)

    def pointer_to(self, address: int) -> int | None:
        """The type of pointers to the type at `address`; None where the file has none, or several."""
        at = address - self._start + _POINTER
        stated = struct.unpack_from("<I", self._bytes, at)[0] if 0 <= at <= len(self._bytes) - 4 else 0
        if stated and self._points_to(self._start + stated, address):
            return self._start + stated
        places = (place - _POINTED_TO for place in self._data.image.pointers_to(address))
        found = [place for place in places if self._kind(place) == Kind.POINTER]
        return found[0] if len(found) == 1 else None

    def _points_to(self, pointer: int, address: int) -> bool:
        return self._kind(pointer) == Kind.POINTER and self._data.pointer(pointer + _POINTED_TO) == address

    def _kind(self, address: int) -> int:
        at = address - self._start
        return self._bytes[at + _KIND] & _KIND_MASK if 0 <= at <= len(self._bytes) - _DESCRIPTOR and at % 8 == 0 else 0

    def fields(self, address: int) -> Mapping[str, StructField]:
        """The fields of the struct at `address`, by name. ElfError where they don't fill the struct one after the other."""
        first, count = self._data.pointer(address + _FIELDS), self._data.number(address + _FIELD_COUNT)
        if not first or not 0 < count <= MOST_FIELDS or self._kind(address) != Kind.STRUCT:
            raise self._data.error(f"has no struct of at most {MOST_FIELDS} fields at the address {address:#x}")
        rows = [self._field(first + index * _FIELD.size) for index in range(count)]
        size = self.size(address)
        for shift in (0, 1):
            shifted = [(name, StructField(field.offset >> shift, field.type)) for name, field in rows]
            if self._fill([field for _, field in shifted], size):
                return dict(shifted)
        raise self._data.error(f"has fields of {self.name(address) or 'a struct'} that overlap")

    def _field(self, address: int) -> tuple[str, StructField]:
        name, type_ = self._data.pointer(address), self._data.pointer(address + 8)
        return self._text(name - self._start) if name > self._start else "", StructField(self._data.number(address + 16), type_)

    def _fill(self, fields: list[StructField], size: int) -> bool:
        """Whether each field begins where the one before has ended, or behind it, and the last ends within the struct."""
        end = 0
        for field in fields:
            if not field.type or field.offset < end:
                return False
            end = field.offset + self.size(field.type)
        return end <= size

    def hash_of(self, package: str, name: str, kind: Kind) -> int:
        """The hash of the type of this name, of pointers to it where the name begins with *; 0 where there is none."""
        type_ = self.find(package, name.removeprefix("*"), kind)
        if type_ is not None and name.startswith("*"):
            type_ = self.pointer_to(type_)
        return 0 if type_ is None else self._data.number(type_ + _HASH, 4)

    @cached_property
    def error_hashes(self) -> Mapping[int, str]:
        """The names of the types that the program stores as an `error`, by their hashes, of which each itab has a copy."""
        hashes = {name: self._itab_hash(itab) for name, itab in self.errors.items()}
        return {type_hash: name for name, type_hash in hashes.items() if type_hash}

    def _itab_hash(self, itab: int) -> int:
        """The copy in an itab, 0 where it isn't the same as that of the type: then this is no itab."""
        copied, type_hash = (
            self._data.number(itab + _ITAB_HASH, 4),
            self._data.number(self._data.pointer(itab + _ITAB_TYPE) + _HASH, 4),
        )
        return copied if copied == type_hash else 0

    @cached_property
    def errors(self) -> Mapping[str, int]:
        """The itabs of the types that the program stores as an `error`, by the names of the types, as "*net.OpError"; those of
        two packages with the same last word, and others of which there are two, are left out."""
        error = self.find("", "error", Kind.INTERFACE)
        itabs: dict[str, int] = {}
        twice: set[str] = set()
        for itab in self._data.image.pointers_to(error)[:MOST_ITABS] if error else ():
            name = self.name(self._data.pointer(itab + _ITAB_TYPE))
            if name:
                twice.update({name} & itabs.keys())
                itabs[name] = itab
        return {name: itab for name, itab in itabs.items() if name not in twice}


def _places(data: bytes, pattern: bytes, most: int) -> Iterator[int]:
    """Return where the pattern is, `most` places at most."""
    at = data.find(pattern) if pattern else -1
    for _ in range(most):
        if at < 0:
            return
        yield at
        at = data.find(pattern, at + 1)
