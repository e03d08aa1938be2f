# SPDX-License-Identifier: Apache-2.0
"""Files that a command writes. Root may write them into folders where others can write too, and their content is not for
everyone. So only the owner can read them (mode 0600), no symbolic link is followed, and an existing file is never written into
but replaced by a new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ssllatency.errors import SsllatencyError

_MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WITHOUT_NAME = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_NOT_FILES = ("/dev/", "/proc/self/fd/")  # devices, and a shell's names of its own descriptors: /dev/stdout, /dev/fd/63
_SHARED_MEMORY = "/dev/shm/"


def create(name: str, *, replace: bool = False) -> int:
    """A descriptor of the new, empty file, for the caller to close; with `replace` it takes the place of one that is there.

    OSError: FileExistsError where one is there that isn't to be replaced, or is no regular file.
    """
    if _is_no_file(name):
        return os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    if not replace:
        return os.open(name, _NEW, _MODE)
    _refuse_odd(name)
    draft = _draft_of(name)
    fd = os.open(draft, _NEW, _MODE)
    try:
        Path(draft).rename(name)
    except BaseException:
        os.close(fd)
        _remove(draft)
        raise
    return fd


def write(name: str, content: str | bytes) -> None:
    """Writes a whole file, in place of one that is there: it stays as it was until all of the new one is written. Where the
    file system can do that, it has no name until then, so that nothing stays of it if we are killed. SsllatencyError where it
    can't be written."""
    with refusing(name):
        if _is_no_file(name):
            _fill(create(name), content)
            return
        _refuse_odd(name)
        with suppress(_NotThere):
            _write_without_name(name, content)
            return
        draft = _draft_of(name)
        fd = os.open(draft, _NEW, _MODE)
        try:
            _fill(fd, content)
            Path(draft).rename(name)
        except BaseException:
            _remove(draft)
            raise


class _NotThere(Exception):
    """The file system has no files without a name, or we may not give them one."""


def _write_without_name(name: str, content: str | bytes) -> None:
    """Raises _NotThere before anything is written, or where the name can't be given."""
    try:
        fd = os.open(Path(name).parent, _WITHOUT_NAME, _MODE)
    except OSError as error:
        raise _NotThere from error
    with os.fdopen(fd, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        draft = _draft_of(name)
        try:
            _link(fd, name)
        except FileExistsError:
            _link(fd, draft)
            try:
                Path(draft).rename(name)
            except BaseException:
                _remove(draft)
                raise


def _link(fd: int, name: str) -> None:
    """Gives a file without a name this one."""
    try:
        os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd)  # with a descriptor Python follows the link
    except FileExistsError:
        raise
    except OSError as error:
        raise _NotThere from error


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turns an OSError raised within into the sentence that the file can't be written."""
    try:
        yield
    except OSError as error:
        raise SsllatencyError(f"{name} can't be written: {error.strerror}.") from None


def _is_no_file(name: str) -> bool:
    return name.startswith(_NOT_FILES) and not name.startswith(_SHARED_MEMORY)


def _refuse_odd(name: str) -> None:
    """Refuse to write where there is something that a file can't take the place of without surprise: a link, a folder, a
    device, a pipe."""
    with suppress(FileNotFoundError):
        mode = os.lstat(name).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, "it is a symbolic link, which isn't followed")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EEXIST, "it is not a regular file")


def _fill(fd: int, content: str | bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _draft_of(name: str) -> str:
    return str(Path(name).with_name(f".ssllatency-{secrets.token_hex(8)}"))


def _remove(draft: str) -> None:
    with suppress(OSError):
        Path(draft).unlink()
