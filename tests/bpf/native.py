# SPDX-License-Identifier: Apache-2.0
"""The native code that the kernel's JIT made of a BPF program, and whether it runs on a private stack."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from ssllatency.engines.bpf import kernel

_PROG_GET_NEXT_ID, _PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 11, 13, 15  # enum bpf_cmd
_INFO_SIZE = 232  # struct bpf_prog_info of linux/bpf.h
_CODE_LENGTH, _CODE, _NAME = 16, 24, slice(64, 80)  # offsets of jited_prog_len, jited_prog_insns, name
# What the x86 JIT emits where r9 becomes the frame of a private stack: mov imm64, %r9; add %gs:displacement, %r9.
_PRIVATE_FRAME = re.compile(rb"\x49\xb9.{8}\x65\x4c\x03\x0c\x25", re.DOTALL)
# The aarch64 JIT adds the processor's own offset: mrs x?, tpidr_el1 or tpidr_el2. No program of ours has another use for it.
_READS_OFFSET = frozenset((0xD538D080, 0xD53CD040))


def native_code(program_fd: int) -> bytes:
    """The program's code with that of its functions; b"" where the JIT is off or the kernel hides it."""
    length = struct.unpack_from("<I", _info(program_fd, 0, 0), _CODE_LENGTH)[0]
    code = ctypes.create_string_buffer(max(length, 1))
    _info(program_fd, length, ctypes.addressof(code))
    return code.raw[:length]


def has_private_stack(code: bytes) -> bool:
    """Whether this machine's code of the JIT sets up the frame of a private stack."""
    if os.uname().machine == "aarch64":
        return any(word & ~31 in _READS_OFFSET for (word,) in struct.iter_unpack("<I", code[: len(code) // 4 * 4]))
    return bool(_PRIVATE_FRAME.search(code))


def loaded_programs() -> Iterator[tuple[str, bytes]]:
    """The name, cut to 15 bytes, and the native code of every program that the kernel holds."""
    number = 0
    while True:
        request = ctypes.create_string_buffer(struct.pack("<II", number, 0), 128)
        if ctypes.CDLL(None).syscall(kernel.BPF_SYSCALL[os.uname().machine], _PROG_GET_NEXT_ID, request, 128) < 0:
            return
        number = struct.unpack_from("<I", request.raw, 4)[0]
        program = kernel.bpf(_PROG_GET_FD_BY_ID, struct.pack("<I", number))
        if program < 0:
            continue  # it is gone
        try:
            name = _info(program, 0, 0)[_NAME].split(b"\0")[0].decode()
            yield name, native_code(program)
        finally:
            os.close(program)


def own_programs() -> list[str]:
    """The names of the programs of which this process holds a descriptor."""
    held = [int(path.name) for path in Path("/proc/self/fd").iterdir() if _meaning(path) == "anon_inode:bpf-prog"]
    return [_info(descriptor, 0, 0)[_NAME].split(b"\0")[0].decode() for descriptor in held]


def _meaning(descriptor: Path) -> str:
    """What a descriptor is; "" of one that a thread has closed meanwhile."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def _info(program_fd: int, code_length: int, code_address: int) -> bytes:
    info = ctypes.create_string_buffer(_INFO_SIZE)
    struct.pack_into("<I", info, _CODE_LENGTH, code_length)
    struct.pack_into("<Q", info, _CODE, code_address)
    result = kernel.bpf(_OBJ_GET_INFO_BY_FD, struct.pack("<IIQ", program_fd, _INFO_SIZE, ctypes.addressof(info)))
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return info.raw
