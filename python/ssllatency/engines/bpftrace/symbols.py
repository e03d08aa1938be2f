# SPDX-License-Identifier: Apache-2.0
"""A debug file that names the planned sites, so that bpftrace can be told of each by name.

bpftrace takes a probe inside a function only where it can disassemble it, which Debian's 0.17 can't, and it reads a bare
address now as the file's own and now as an offset. A symbol it takes as it is. So each planned site becomes a symbol of a debug
file, which bpftrace looks for as BCC_SYMFS/PATH-OF-THE-LIBRARY and takes only where its build-id is the library's: on any other
build of the library the names are unknown, and nothing is probed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ssllatency.probes.plan import Probe

_HEADER_SIZE, _SECTION_SIZE, _SYMBOL_SIZE = 64, 64, 24
_SHT_SYMTAB, _SHT_STRTAB, _SHT_NOTE = 2, 3, 7
_SHN_ABS = 0xFFF1
_GLOBAL_FUNC = 0x12
_MACHINES = {"x86-64": 62, "aarch64": 183}  # EM_*
_NT_GNU_BUILD_ID = 3
_NAMES = (b"", b".note.gnu.build-id", b".symtab", b".strtab", b".shstrtab")


def site_name(operation: str, probe: Probe) -> str:
    """The symbol of a site: the operation, what the probe does, and its address in the file's own numbering."""
    return f"{operation}__{probe.role}_{probe.address:x}"


def symbol_file(sites: Mapping[str, int], build_id: str, machine: str) -> bytes:
    """A 64-bit ELF file with a build-id note and a function symbol of one byte for each site, given by its address.

    `machine` is "x86-64" or "aarch64".
    """
    symbols, strings = _symbols(sites)
    contents = [b"", _note(bytes.fromhex(build_id)), symbols, strings, b"\0".join(_NAMES) + b"\0"]
    types = (0, _SHT_NOTE, _SHT_SYMTAB, _SHT_STRTAB, _SHT_STRTAB)
    body, headers, name_at = b"", b"", 0
    for kind, name, content in zip(types, _NAMES, contents, strict=True):
        symtab = kind == _SHT_SYMTAB
        fields = (name_at, kind, 0, 0, _HEADER_SIZE + len(body), len(content), 3 if symtab else 0, int(symtab), 8)
        headers += struct.pack("<IIQQQQIIQQ", *fields, _SYMBOL_SIZE if symtab else 0) if kind else bytes(_SECTION_SIZE)
        body += content + bytes(-len(content) % 8)
        name_at += len(name) + 1
    return _elf_header(_MACHINES[machine], _HEADER_SIZE + len(body), len(contents)) + body + headers


def _symbols(sites: Mapping[str, int]) -> tuple[bytes, bytes]:
    symbols, strings = bytes(_SYMBOL_SIZE), b"\0"
    for name, address in sites.items():
        symbols += struct.pack("<IBBHQQ", len(strings), _GLOBAL_FUNC, 0, _SHN_ABS, address, 1)
        strings += name.encode() + b"\0"
    return symbols, strings


def _note(build_id: bytes) -> bytes:
    """Empty where the library has no build-id; bpftrace then compares none."""
    if not build_id:
        return b""
    return struct.pack("<III", 4, len(build_id), _NT_GNU_BUILD_ID) + b"GNU\0" + build_id + bytes(-len(build_id) % 4)


def _elf_header(machine: int, sections_at: int, sections: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    sizes = (_HEADER_SIZE, 0, 0, _SECTION_SIZE, sections, sections - 1)
    return identity + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, sections_at, 0, *sizes)
