#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints python/ssllatency/abi.py from the BTF of the BPF objects: the structs, enums and maps of the shared headers.

Usage: generate_abi.py OBJECT ... Needs bpftool. Only types whose names begin with ssll_ are taken, and the maps of the object
ssllatency, which the bcc engine makes itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HEADER = '''# SPDX-License-Identifier: Apache-2.0
"""The records that the kernel side and user space share. Generated from bpf/ssllatency.h by `make abi`: do not edit."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import NamedTuple


class MapShape(NamedTuple):
    """A map as the headers define it: its BPF_MAP_TYPE_*, sizes in bytes, entries and BPF_F_* flags."""

    kind: int
    key_size: int
    value_size: int
    entries: int
    flags: int
'''
INTEGERS = {"char": "c_char", "signed char": "c_int8", "unsigned char": "c_uint8", "short": "c_int16", "int": "c_int32"}
INTEGERS |= {"unsigned short": "c_uint16", "unsigned int": "c_uint32", "long long": "c_int64", "unsigned long long": "c_uint64"}

Types = dict[int, dict[str, Any]]


def read_types(path: str) -> Types:
    """The BTF types of the object by their number."""
    shown = subprocess.run(["bpftool", "-j", "btf", "dump", "file", path], check=True, capture_output=True, text=True)
    return {entry["id"]: entry for entry in json.loads(shown.stdout)["types"]}


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.removeprefix("ssll_").split("_"))


def ctype(types: Types, number: int) -> str:
    """The ctypes expression of a BTF type."""
    entry = types[number]
    if entry["kind"] in ("TYPEDEF", "CONST", "VOLATILE"):
        return ctype(types, entry["type_id"])
    if entry["kind"] == "ARRAY":
        return f"{ctype(types, entry['type_id'])} * {entry['nr_elems']}"
    if entry["kind"] == "INT":
        return f"ctypes.{INTEGERS[entry['name']]}"
    if entry["kind"] == "STRUCT" and entry["name"].startswith("ssll_"):
        return camel(entry["name"])
    raise SystemExit(f"generate_abi: a member is of kind {entry['kind']}, which the ABI header should not use")


def signed(value: int) -> int:
    """An enumerator's value: older bpftool prints a negative one as if its 64 bits had no sign."""
    return value - (1 << 64) if value >> 63 else value


def enum_text(entry: dict[str, Any]) -> str:
    own = entry["name"].removeprefix("ssll_").upper() + "_"
    names = [value["name"].removeprefix("SSLL_").removeprefix(own) for value in entry["values"]]
    rows = (f"    {name} = {signed(value['val'])}" for name, value in zip(names, entry["values"], strict=True))
    return f"class {camel(entry['name'])}(IntEnum):\n" + "\n".join(rows) + "\n"


def first_of_union(types: Types, member: dict[str, Any]) -> dict[str, Any]:
    """The member itself; of a union without a name the first of its members, which is as large as it."""
    inner = types[member["type_id"]]
    if inner["kind"] != "UNION" or size_of(types, inner["members"][0]["type_id"]) != inner["size"]:
        return member
    first: dict[str, Any] = inner["members"][0]
    return first


def struct_text(types: Types, entry: dict[str, Any]) -> str:
    members = (first_of_union(types, member) for member in entry["members"])
    rows = (f'        ("{member["name"]}", {ctype(types, member["type_id"])}),' for member in members)
    size = f"assert ctypes.sizeof({camel(entry['name'])}) == {entry['size']}"
    return f"class {camel(entry['name'])}(ctypes.Structure):\n    _fields_ = (\n" + "\n".join(rows) + f"\n    )\n\n\n{size}\n"


def size_of(types: Types, number: int) -> int:
    """The bytes of an integer, a structure, or another name of one."""
    entry = types[number]
    return int(entry["size"]) if "size" in entry else size_of(types, entry["type_id"])


def map_text(types: Types, variable: dict[str, Any]) -> str:
    """One map: libbpf's convention says numbers as the length of an array that is pointed to, types as what is pointed to. ""
    for a ring buffer: it has no keys, and bcc's programs do without it."""
    members = types[variable["type_id"]]["members"]
    pointed = {member["name"]: types[member["type_id"]]["type_id"] for member in members}
    if "key" not in pointed:
        return ""
    kind, entries, flags = (
        types[pointed[name]]["nr_elems"] if name in pointed else 0 for name in ("type", "max_entries", "map_flags")
    )
    sizes = size_of(types, pointed["key"]), size_of(types, pointed["value"])
    return f'    "{variable["name"]}": MapShape({kind}, {sizes[0]}, {sizes[1]}, {entries}, {flags}),'


def maps_text(path: str) -> str:
    """All maps of one object."""
    types = read_types(path)
    [section] = (entry for entry in types.values() if entry["kind"] == "DATASEC" and entry["name"] == ".maps")
    rows = sorted(filter(None, (map_text(types, types[each["type_id"]]) for each in section["vars"])))
    return "MAPS = {\n" + "\n".join(rows) + "\n}\n"


def texts(path: str) -> dict[tuple[str, str], str]:
    """The classes of the types in one object, by kind and name."""
    types = read_types(path)
    found = {}
    for entry in types.values():
        if entry["name"].startswith("ssll_") and entry["kind"] in ("ENUM", "STRUCT"):
            text = enum_text(entry) if entry["kind"] == "ENUM" else struct_text(types, entry)
            found[entry["kind"], entry["name"]] = text
    return found


def inner_first(structs: dict[str, str]) -> list[str]:
    """The classes in the order of their names, but those that others have as members before them."""
    ordered: list[str] = []

    def add(name: str) -> None:
        text = structs[name]
        for member in structs:
            if member != name and re.search(rf"\", {member}\b", text):
                add(member)
        if text not in ordered:
            ordered.append(text)

    for name in structs:
        add(name)
    return ordered


def main() -> None:
    found: dict[tuple[str, str], str] = {}
    for path in sys.argv[1:]:
        for key, text in texts(path).items():
            if found.setdefault(key, text) != text:
                raise SystemExit(f"generate_abi: {key[1]} differs between the objects")
    enums = [found[key] for key in sorted(found) if key[0] == "ENUM"]
    structs = {camel(name): found[kind, name] for kind, name in sorted(found) if kind == "STRUCT"}
    [own] = (path for path in sys.argv[1:] if Path(path).name == "ssllatency.bpf.o")
    print("\n\n".join([HEADER, *enums, *inner_first(structs), maps_text(own)]), end="")


if __name__ == "__main__":
    main()
