# SPDX-License-Identifier: Apache-2.0
"""Changes a function of a library as hooks and live patches do: a jump over its first instructions, to a copy of them that
jumps back. In the memory of a process, or in the file itself."""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import capstone
import pytest

_JUMP, _JUMP_SIZE, _COPY_SIZE = b"\xe9", 5, 64


@dataclass(frozen=True)
class Hook:
    """What is written, by offsets in the file: the copy first."""

    copy_at: int
    copy: bytes
    jump_at: int
    jump: bytes


def hook_of(library: Path, function: str) -> Hook:
    """A hook of the function that does nothing. The copy lies where the code ends, in the rest of its page."""
    if platform.machine() != "x86_64":
        pytest.skip("the hook is of x86-64 instructions")
    start, end = code_bounds(library)
    function_at, content = _offset(library, function), library.read_bytes()
    code, size = content[function_at : function_at + _COPY_SIZE], 0
    for instruction in capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(code, 0):
        assert "rip" not in instruction.op_str
        assert not instruction.mnemonic.startswith(("j", "call"))
        size += instruction.size
        if size >= _JUMP_SIZE:
            break
    assert start <= function_at < end
    copy_at = end + 16 - end % 16
    copy = code[:size] + _jump(copy_at + size, function_at + size)
    if -end % 4096 < 16 + len(copy):
        pytest.skip("no room behind the code of this library")
    return Hook(copy_at, copy, function_at, _jump(function_at, copy_at) + b"\x90" * (size - _JUMP_SIZE))


def hook_process(pid: int, library: Path, function: str) -> None:
    """Changes the function in a process that maps the library."""
    hook = hook_of(library, function)
    start, begin = _mapping(pid, library)
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for at, code in ((hook.copy_at, hook.copy), (hook.jump_at, hook.jump)):
            memory.seek(start + at - begin)
            assert memory.write(code) == len(code)


def hook_file(library: Path, function: str) -> None:
    """Changes the function in the file, in place."""
    hook = hook_of(library, function)
    with library.open("r+b") as file:
        for at, code in ((hook.copy_at, hook.copy), (hook.jump_at, hook.jump)):
            file.seek(at)
            file.write(code)


def _jump(at: int, to: int) -> bytes:
    return _JUMP + (to - at - _JUMP_SIZE).to_bytes(4, "little", signed=True)


def code_bounds(library: Path) -> tuple[int, int]:
    """Where the code is, by offsets in the file, which are the addresses in it as well."""
    for line in _said("readelf", "-lW", str(library)).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"] and " R E " in line:
            offset, address, size = (int(word, 16) for word in (words[1], words[2], words[4]))
            assert offset == address
            return offset, offset + size
    raise AssertionError("no code")


def _offset(library: Path, function: str) -> int:
    found = re.search(rf"^(\w+) T {function}\b", _said("nm", "-D", str(library)), re.MULTILINE)
    assert found
    return int(found[1], 16)


def _mapping(pid: int, library: Path) -> tuple[int, int]:
    """Where the process has its code, and the offset in the file from which on."""
    pattern = rf"^(\w+)-\w+ r.xp (\w+) .* {re.escape(str(library))}$"
    found = re.search(pattern, Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    assert found
    return int(found[1], 16), int(found[2], 16)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
