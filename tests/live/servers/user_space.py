# SPDX-License-Identifier: Apache-2.0
"""A file system in user space (FUSE) with the files of one folder, spoken to the kernel directly. As a program:

    python user_space.py FOLDER MOUNTPOINT [LIE]

It says "mounted", and serves until it is killed. Stopped (SIGSTOP), it is one that never answers. With a lie it tells
ssllatency something else than who runs the files, but never in what the kernel keeps for everyone who maps them:

    a folder   what the files of the same names there have
    fickle     at each read some other bytes
    shrinking  a size that is smaller each time it is asked for
    short      half of what is asked for, and nothing beyond the first megabyte
    failing    an error at every other read
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEADER, _ANSWER = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")
_ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _INIT, _FLUSH, _RELEASE = 1, 2, 3, 14, 15, 26, 25, 18
_OPENDIR, _RELEASEDIR, _READDIR, _STATFS, _BATCH_FORGET, _INTERRUPT = 27, 29, 28, 17, 42, 36
_ROOT, _BUFFER = 1, 1 << 21
_DIRECT_IO = 1  # reads of this descriptor ask us each time
_OF_ONE_READER = 2  # in a read's flags (FUSE_READ_LOCKOWNER): by a process for itself, not for the page cache
_MNT_DETACH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Server:
    def __init__(self, folder: Path, device: int, lie: str) -> None:
        self._files = dict(enumerate(sorted(folder.iterdir()), _ROOT + 1))
        self._numbers = {os.fsencode(path.name): number for number, path in self._files.items()}
        self._device, self._lie, self._asked = device, lie, 0

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, code, unique, node, _, _, pid, _ = _HEADER.unpack_from(request)
            if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            lie = self._lie if self._lie and _is_tracer(pid) else ""
            answer = self._answer(code, node, request[_HEADER.size :], lie)
            status, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self._device, _ANSWER.pack(_ANSWER.size + len(body), status, unique) + body)

    def _answer(self, code: int, node: int, body: bytes, lie: str) -> bytes | int:
        if code == _INIT:
            return struct.pack("=IIIIHHIIHH8I", 7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 32, 0, *([0] * 8))
        if code == _LOOKUP:
            number = self._numbers.get(body.rstrip(b"\0"))
            if number is None:
                return errno.ENOENT
            return struct.pack("=QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(number, lie)
        if code == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node, lie)
        if code in (_OPEN, _OPENDIR):
            return struct.pack("=QII", 0, _DIRECT_IO if lie else 0, 0)
        if code == _READ:
            _, offset, size, flags = struct.unpack_from("=QQII", body)
            lie = lie if flags & _OF_ONE_READER else ""
            told = Path(lie) / self._files[node].name if "/" in lie else self._files[node]
            with told.open("rb") as file:
                return self._told(os.pread(file.fileno(), size, offset), offset, lie)
        if code == _READDIR:
            return b""
        if code == _STATFS:
            return struct.pack("=QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return b"" if code in (_FLUSH, _RELEASE, _RELEASEDIR) else errno.ENOSYS

    def _told(self, content: bytes, offset: int, lie: str) -> bytes | int:
        self._asked += bool(lie)
        if lie == "fickle":
            told = bytearray(content)
            for _ in range(len(told) // 512):
                told[random.randrange(len(told))] = random.randrange(256)
            return bytes(told)
        if lie == "short":
            return content[: len(content) // 2] if offset < 1 << 20 else b""
        return errno.EIO if lie == "failing" and self._asked % 2 else content

    def _attributes(self, number: int, lie: str) -> bytes:
        """Nothing is cached: each look asks again."""
        if number == _ROOT:
            size, mode = 0, 0o40755
        else:
            size, mode = self._files[number].stat().st_size, 0o100755
        if lie == "shrinking":
            self._asked += 1
            size = size // self._asked
        return _ATTRIBUTES.pack(number, size, (size + 511) // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _is_tracer(pid: int) -> bool:
    try:
        return b"ssllatency.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main() -> None:
    folder, mount_point = map(Path, sys.argv[1:3])
    lie = sys.argv[3] if len(sys.argv) > 3 else ""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    words = (b"user_space", os.fsencode(mount_point), b"fuse.test", 0, options.encode())
    if _LIBC.mount(*(ctypes.c_ulong(word) if isinstance(word, int) else word for word in words)):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    _Server(folder, device, lie).serve()


@contextmanager
def in_user_space(folder: Path, mount_point: Path, lie: str = "") -> Iterator[subprocess.Popen[str]]:
    """The folder's files below the mount point as well; the process that answers for them."""
    mount_point.mkdir()
    command = [sys.executable, "-I", __file__, str(folder), str(mount_point), lie]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "mounted\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()  # whoever waits for an answer gets an error now
            _LIBC.umount2(os.fsencode(mount_point), _MNT_DETACH)


if __name__ == "__main__":
    main()
