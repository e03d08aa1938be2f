# SPDX-License-Identifier: Apache-2.0
"""Bytes of an untrusted file: every read has an offset, a length and an end.

A file of a traced process can be cut short or rewritten while it is read, so it is read by pread, never mapped: a mapping
of a file that shrinks kills its reader.
"""

from __future__ import annotations

import io
import os
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import LARGEST as MAX_FILE
from ssllatency.safe_open import NotRegular, open_below, open_regular

__all__ = ["CHUNK", "MAX_FILE", "MAX_READ", "ElfError", "Source"]

CHUNK = 1 << 20
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
        """The regular file at `path`, a path of ours. ElfError where it can't be opened or is something else, as a pipe."""
        return cls._opened(label, lambda: open_regular(path))

    @classmethod
    def open_below(cls, root: str, path: str, label: str) -> Source:
        """The regular file at `path` in the tree of a target, whose / is `root`. ElfError as for open()."""
        return cls._opened(label, lambda: open_below(root, path))

    @classmethod
    def _opened(cls, label: str, opening: Callable[[], int]) -> Source:
        try:
            fd = opening()
        except NotRegular as error:
            raise ElfError(f"{label} {error.strerror}.") from error
        except (OSError, ValueError) as error:
            raise ElfError(f"{label} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
        return cls(label, os.fstat(fd).st_size, fd=fd)

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
