# SPDX-License-Identifier: Apache-2.0
"""The last look before probes are attached: that the file still has the code by which their sites were chosen.

Whoever made the plan, and however long ago: a plan that was kept, a file that was written to while it was planned, a library
that was overwritten in place since. It is read through the path, of a descriptor, that the kernel is given for the probes; and
it is mapped, as processes map it, for a file system in user space may answer a read otherwise.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.probes.plan import CodeRange, Covered
from ssllatency.safe_open import file_system_of, open_regular

_INSTRUCTION = 4  # bytes, of which a breakpoint changes any
_OVERLAY = 0x794C7630  # OVERLAYFS_SUPER_MAGIC of linux/magic.h
_TIMES_TELL_NS = 1_000_000_000  # two writes this far apart give a file different times


class FileStatus(NamedTuple):
    """The part of a file's status that changes when it is written to, or copied to another layer of its overlay."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int


def check_code(image: TracedImage, offsets: Iterable[int]) -> None:
    """AttachError unless each site, by its offset in the file, lies in code of the image's plan that the file has."""

    def read(code: CodeRange) -> bytes:
        return os.pread(descriptor, code.size, code.offset)

    needed = set(offsets)
    if not needed:
        return
    try:
        with _opened(image.file) as descriptor:
            _check(image, needed, read)
        with _mapped(image) as read_mapped:
            _check(image, (), read_mapped)
    except (OSError, ValueError, OverflowError):
        raise _overwritten(image) from None


def is_overwritten(image: TracedImage) -> bool:
    """Whether the file no longer has the code of the image's plan, or can't be read any more. It is read only where its status
    says that something was written since this was asked last."""
    try:
        with _opened(image.file) as descriptor:
            now = _status(descriptor)
            settled = time.time_ns() - max(now.written_ns, now.changed_ns) > _TIMES_TELL_NS
            if settled and _unwritten.get(image.file) == now:
                return False
            _check(image, (), lambda code: os.pread(descriptor, code.size, code.offset))
            _unwritten[image.file] = now
    except (OSError, AttachError):
        return True
    return False


_unwritten: dict[str, FileStatus] = {}  # by path of a descriptor, the status of a file that had the code of its plan


def status_of(image: TracedImage) -> FileStatus | None:
    """Return the status of the image's file; None where it can't be asked."""
    try:
        with _opened(image.file) as descriptor:
            return _status(descriptor)
    except OSError:
        return None


def is_on_overlay(image: TracedImage) -> bool:
    """Whether the image's file is one of an overlay, which may copy it to its upper layer."""
    try:
        with _opened(image.file) as descriptor:
            return file_system_of(descriptor) == _OVERLAY
    except OSError:
        return False


def _status(descriptor: int) -> FileStatus:
    status = os.fstat(descriptor)
    return FileStatus(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_probed(image: TracedImage, offset: int) -> bool:
    """Whether a process that maps the file as code from now on has the breakpoint there; so it is taken where that can't be
    told. Only of links that all processes share: this one maps it to see, opened anew, for what was opened before an overlay
    has copied the file maps the original."""
    begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    at = slice(offset - begin, offset - begin + _INSTRUCTION)
    try:
        descriptor = open_regular(image.file)
    except OSError:
        return True
    try:
        size = min(os.fstat(descriptor).st_size - begin, 2 * mmap.ALLOCATIONGRANULARITY)
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        with mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=protection, offset=begin) as code:
            return code[at] != os.pread(descriptor, _INSTRUCTION, offset)
    except (OSError, ValueError, OverflowError):
        return True
    finally:
        os.close(descriptor)


def check_content(image: TracedImage, offsets: Iterable[int], content: bytes) -> None:
    """Checks what was read of the file against the plan."""
    _check(image, set(offsets), lambda code: content[code.offset : code.offset + code.size])


def _check(image: TracedImage, offsets: Collection[int], read: Callable[[CodeRange], bytes]) -> None:
    covered = Covered(image.plan.code)
    if not all(covered.holds(offset) for offset in offsets):
        raise AttachError(f"{image.plan.path} has a site in code that wasn't confirmed: nothing is attached to it.")
    if not all(hashlib.sha256(read(code)).hexdigest() == code.digest for code in image.plan.code):
        raise _overwritten(image)


def _overwritten(image: TracedImage) -> AttachError:
    return AttachError(
        f"the code of {image.plan.path} isn't what it was when it was planned: it was overwritten. Nothing is attached to it;"
        " restart the processes that map it, for overwriting a library that runs breaks them."
    )


@contextmanager
def _mapped(image: TracedImage) -> Iterator[Callable[[CodeRange], bytes]]:
    """Reads what a process runs that maps the image's code, of the file opened anew; OSError where there is none to map. The
    mapping could be written to, which would change nothing in the file: so the kernel sets no breakpoint in it."""
    end = max(code.offset + code.size for code in image.plan.code)
    begin = min(code.offset for code in image.plan.code) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    descriptor, copy = open_regular(image.file), -1
    try:
        copy = os.memfd_create("code", os.MFD_CLOEXEC)
        with (
            mmap.mmap(descriptor, end - begin, access=mmap.ACCESS_COPY, offset=begin) as mapping,
            memoryview(mapping) as pages,
        ):

            def read(code: CodeRange) -> bytes:
                # The kernel copies it: it returns an error for pages that aren't there, which would kill us.
                copied = os.pwrite(copy, pages[code.offset - begin :][: code.size], 0)
                return os.pread(copy, copied, 0)

            yield read
    finally:
        os.close(descriptor)
        if copy >= 0:
            os.close(copy)


@contextmanager
def _opened(file: str) -> Iterator[int]:
    """The descriptor that the path names, where it is one of ours; else the file opened."""
    own = re.fullmatch(rf"/proc/(?:self|{os.getpid()})/fd/(\d+)", file)
    if own:
        yield int(own[1])
        return
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
