#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints python/ssllatency/abi.py from the BTF of the BPF object: the structs and enums of bpf/ssllatency.h.

Usage: generate_abi.py OBJECT. Needs bpftool. Only types whose names begin with ssll_ are taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

HEADER = '''# SPDX-License-Identifier: Apache-2.0
"""The records that the kernel side and user space share. Generated from bpf/ssllatency.h by `make abi`: do not edit."""

from __future__ import annotations

import ctypes
from enum import IntEnum
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
    raise SystemExit(f"generate_abi: a member is of kind {entry['kind']}, which the ABI header should not use")


def enum_text(entry: dict[str, Any]) -> str:
    own = entry["name"].removeprefix("ssll_").upper() + "_"
    rows = (f"    {value['name'].removeprefix('SSLL_').removeprefix(own)} = {value['val']}" for value in entry["values"])
    return f"class {camel(entry['name'])}(IntEnum):\n" + "\n".join(rows) + "\n"


def struct_text(types: Types, entry: dict[str, Any]) -> str:
    rows = (f'        ("{member["name"]}", {ctype(types, member["type_id"])}),' for member in entry["members"])
    size = f"assert ctypes.sizeof({camel(entry['name'])}) == {entry['size']}"
    return f"class {camel(entry['name'])}(ctypes.Structure):\n    _fields_ = (\n" + "\n".join(rows) + f"\n    )\n\n\n{size}\n"


def main() -> None:
    types = read_types(sys.argv[1])
    ours = sorted((entry for entry in types.values() if entry["name"].startswith("ssll_")), key=lambda entry: entry["name"])
    parts = [HEADER]
    parts += [enum_text(entry) for entry in ours if entry["kind"] == "ENUM"]
    parts += [struct_text(types, entry) for entry in ours if entry["kind"] == "STRUCT"]
    print("\n\n".join(parts), end="")


if __name__ == "__main__":
    main()
