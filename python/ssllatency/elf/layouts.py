# SPDX-License-Identifier: Apache-2.0
"""Structures of elf(5) and the numbers in them, as far as they are used: 64-bit, little-endian."""

from __future__ import annotations

import struct

IDENT = b"\x7fELF\x02\x01"  # EI_MAG, ELFCLASS64, ELFDATA2LSB
MAGIC = IDENT[:4]
# e_ident, e_type, e_machine, e_version, e_entry, e_phoff, e_shoff, e_flags, e_ehsize, e_phentsize, e_phnum, e_shentsize,
# e_shnum, e_shstrndx
FILE_HEADER = struct.Struct("<16s2HI3QI6H")
SEGMENT = struct.Struct("<2I6Q")  # p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
# sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, sh_entsize
SECTION = struct.Struct("<2I4Q2I2Q")
SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size

ET_EXEC, ET_DYN = 2, 3
EM_X86_64, EM_AARCH64 = 62, 183
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_EH_FRAME = 1, 2, 4, 0x6474E550
SHT_PROGBITS, SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 7, 8, 11
