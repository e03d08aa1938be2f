# SPDX-License-Identifier: Apache-2.0
"""Bytes of an untrusted file. Every read has an offset and a bounded length.

A file of a traced process can be cut short or rewritten while it is read. So a file to be planned is first copied in one go:
digest, parsing and planning then use the same bytes, whatever is written to the file meanwhile. Other files are read by pread.
No file is mapped: reading a mapping of a file that has shrunk kills the reader.
"""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
import struct
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ssllatency.elf.room import most_copied
from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import LARGEST as MAX_FILE
from ssllatency.safe_open import NotRegular, open_below, open_regular

__all__ = ["CHUNK", "MAX_FILE", "MAX_READ", "ElfError", "ElfSource"]

_MOST_EXTENTS = 1 << 14
CHUNK = 1 << 20
MAX_READ = 256 << 20


class ElfError(SsllatencyError):
    """One sentence that names the file: not an ELF file, cut short, 32-bit, of another machine, too many of something."""


class ElfSource:
    """A file, or bytes unpacked from one, read by position. `label` is the path that people are shown. Of a private copy,
    `digest` tells the content and `stored` how many bytes of it aren't in holes. `owner` is the user who owns the file."""

    def __init__(self, label: str, size: int, *, fd: int | None = None, data: bytes | mmap.mmap = b"") -> None:
        self.label = label
        self.size = size
        self.digest, self.stored = "", size
        self.owner: int | None = None
        self._fd = fd
        self._data = data
        if fd is not None:
            weakref.finalize(self, os.close, fd)

    @classmethod
    def open(cls, path: str | Path, label: str) -> ElfSource:
        """The regular file at `path`, a path of ours. ElfError where it can't be opened or is something else, as a pipe."""
        return cls._opened(label, lambda: open_regular(path))

    @classmethod
    def open_below(cls, root: str, path: str, label: str) -> ElfSource:
        """The regular file at `path` in the tree of a target, whose / is `root`. ElfError as for open()."""
        return cls._opened(label, lambda: open_below(root, path))

    @classmethod
    def _opened(cls, label: str, opening: Callable[[], int]) -> ElfSource:
        try:
            fd = opening()
        except NotRegular as error:
            raise ElfError(f"{label} {error.strerror}.") from error
        except (OSError, ValueError) as error:
            raise ElfError(f"{label} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
        status = os.fstat(fd)
        source = cls(label, status.st_size, fd=fd)
        source.owner = status.st_uid
        return source

    @classmethod
    def copied(cls, path: str | Path, label: str) -> ElfSource:
        """A private copy of the regular file at `path`, most_copied() bytes at most; ElfError as from open(), or where it can't
        be read to its end. Holes of the file take no memory."""
        source = cls.open(path, label)
        if source.size > most_copied():
            most = f"{most_copied() >> 20} MiB"
            raise ElfError(f"{label} is larger than {most}, more than is read of a file that may be traced.")
        if not source.size:
            return cls.of(b"", label)
        assert source._fd is not None
        copy = mmap.mmap(-1, source.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        private = cls(label, source.size, data=copy)
        private.owner = source.owner
        try:
            with memoryview(copy) as memory:
                private.digest, private.stored = read_through(source._fd, source.size, memory)
        except OSError as error:
            raise ElfError(f"{label} cannot be read: {error.strerror}.") from error
        except EOFError:
            raise source.cut_short() from None
        return private

    @classmethod
    def of(cls, data: bytes, label: str) -> ElfSource:
        """`data` as a source, in place of a file."""
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
            return io.BufferedReader(_Reader(self))
        return os.fdopen(os.dup(self._fd), "rb")

    def crc32(self) -> int:
        """The CRC of the whole file as .gnu_debuglink has it."""
        value = 0
        for offset in range(0, self.size, CHUNK):
            value = zlib.crc32(self.read(offset, min(CHUNK, self.size - offset)), value)
        return value

    def cut_short(self) -> ElfError:
        return ElfError(f"{self.label} is cut short or damaged: what its headers describe lies outside the file.")


class _Reader(io.RawIOBase):
    """A stream over the bytes of a private copy, without copying them again."""

    def __init__(self, source: ElfSource) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._source.size - self._at)
        data = self._source.read(self._at, size) if size > 0 else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def read_through(fd: int, size: int, copy: memoryview | None = None) -> tuple[str, int]:
    """Reads an open file of `size` bytes once, into `copy` if there is one: a digest of what was read, and how much that was.

    Holes aren't read: their places are part of the digest (a SHA-256). OSError, and EOFError where the file has become shorter.
    """
    digest, read = hashlib.sha256(struct.pack("<Q", size)), 0
    buffer = memoryview(bytearray(0 if copy else CHUNK))
    for start, end in _extents(fd, size):
        digest.update(struct.pack("<QQ", start, end))
        while start < end:
            piece = (copy[start : min(end, start + CHUNK)]) if copy else buffer[: end - start]
            count = os.preadv(fd, [piece], start)
            if not count:
                raise EOFError
            digest.update(piece[:count])
            start, read = start + count, read + count
    if os.fstat(fd).st_size < size:
        raise EOFError
    return digest.hexdigest(), read


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """[start, end) of each stretch of data between the file's holes; the whole file on a file system without holes. Of very
    many the last ones are taken for one: a file system in user space may tell of one for each byte."""
    end = 0
    for _ in range(_MOST_EXTENTS):
        start = max(end, _seek(fd, end, os.SEEK_DATA, end))  # a file system in user space may lead back
        if start >= size:
            return
        end = max(start + 1, min(size, _seek(fd, start, os.SEEK_HOLE, size)))
        yield start, end
        if end >= size:
            return
    yield end, size


def _seek(fd: int, offset: int, whence: int, unknown: int) -> int:
    try:
        return os.lseek(fd, offset, whence)
    except OSError as error:
        return sys.maxsize if error.errno == errno.ENXIO else unknown
