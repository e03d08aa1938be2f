# SPDX-License-Identifier: Apache-2.0
"""Bytes of an untrusted file: every read has an offset, a length and an end.

A file of a traced process can be cut short or rewritten while it is read, so it is read by pread, never mapped: a mapping
of a file that shrinks kills its reader.
"""

from __future__ import annotations

import io
import os
import stat
import weakref
import zlib
from pathlib import Path
from typing import BinaryIO

from ssllatency.errors import SsllatencyError

CHUNK = 1 << 20
MAX_FILE = 4 << 30
MAX_READ = 256 << 20


class ElfError(SsllatencyError):
    """One sentence that names the file: not an ELF file, cut short, 32-bit, of another machine, too many of something."""


class Source:
    """A file, or bytes unpacked from one, read by position. `label` is the path that people are shown."""

    def __init__(self, label: str, size: int, *, fd: int | None = None, data: bytes = b"") -> None:
        self.label = label
        self.size = size
        self._fd = fd
        self._data = data
        if fd is not None:
            weakref.finalize(self, os.close, fd)

    @classmethod
    def open(cls, path: str | Path, label: str) -> Source:
        """The regular file at `path`. ElfError where it can't be opened or is something else (a pipe, a device)."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError) as error:
            raise ElfError(f"{label} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
        status = os.fstat(fd)
        source = cls(label, status.st_size, fd=fd)
        if not stat.S_ISREG(status.st_mode):
            raise ElfError(f"{label} is not a regular file.")
        if status.st_size > MAX_FILE:
            raise ElfError(f"{label} is larger than {MAX_FILE >> 30} GiB, more than any library.")
        return source

    @classmethod
    def of(cls, data: bytes, label: str) -> Source:
        """`data` as if it were a file."""
        return cls(label, len(data), data=data)

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset`; ElfError where the file has fewer, or for more than MAX_READ at once."""
        if offset < 0 or not 0 <= size <= MAX_READ or offset + size > self.size:
            raise self.cut_short()
        if self._fd is None:
            return self._data[offset : offset + size]
        try:
            data = os.pread(self._fd, size, offset)
        except OSError as error:
            raise ElfError(f"{self.label} cannot be read: {error.strerror}.") from error
        if len(data) != size:
            raise self.cut_short()
        return data

    def stream(self) -> BinaryIO:
        """A new binary stream over the same bytes, for the caller to close."""
        if self._fd is None:
            return io.BytesIO(self._data)
        return os.fdopen(os.dup(self._fd), "rb")

    def crc32(self) -> int:
        """The CRC of the whole file as .gnu_debuglink has it."""
        value = 0
        for offset in range(0, self.size, CHUNK):
            value = zlib.crc32(self.read(offset, min(CHUNK, self.size - offset)), value)
        return value

    def cut_short(self) -> ElfError:
        return ElfError(f"{self.label} is cut short or damaged: what its headers describe lies outside the file.")
