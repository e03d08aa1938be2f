# SPDX-License-Identifier: Apache-2.0
"""One byte of code as a process runs it: our own, which nothing has changed."""

from __future__ import annotations

import os
from pathlib import Path

from ssllatency.targets import code_byte, mapped_files


def test_a_byte_is_the_file_s_where_no_breakpoint_is() -> None:
    file = next(one for one in mapped_files(os.getpid()) if "libc.so" in one.path or "libc-" in one.path)
    content = Path(file.path).read_bytes()
    found = {offset: code_byte(os.getpid(), file, offset) for offset in range(0, len(content), 4096)}
    mapped = {offset: byte for offset, byte in found.items() if byte is not None}
    assert len(mapped) > 50
    assert mapped == {offset: content[offset] for offset in mapped}
    assert code_byte(os.getpid(), file, len(content) + (1 << 20)) is None
    assert code_byte(5_000_000, file, 0) is None
