# SPDX-License-Identifier: Apache-2.0
"""A file system in user space (FUSE) with the files of one folder, spoken to the kernel directly. As a program:

    python user_space.py FOLDER MOUNTPOINT

It says "mounted", and serves until it is killed. Stopped (SIGSTOP), it is one that never answers.
"""

from __future__ import annotations

import ctypes
import errno
import os
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
_MNT_DETACH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Server:
    def __init__(self, folder: Path, device: int) -> None:
        self._files = dict(enumerate(sorted(folder.iterdir()), _ROOT + 1))
        self._numbers = {os.fsencode(path.name): number for number, path in self._files.items()}
        self._device = device

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, code, unique, node, *_ = _HEADER.unpack_from(request)
            if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            answer = self._answer(code, node, request[_HEADER.size :])
            status, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self._device, _ANSWER.pack(_ANSWER.size + len(body), status, unique) + body)

    def _answer(self, code: int, node: int, body: bytes) -> bytes | int:
        if code == _INIT:
            return struct.pack("=IIIIHHIIHH8I", 7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 32, 0, *([0] * 8))
        if code == _LOOKUP:
            number = self._numbers.get(body.rstrip(b"\0"))
            return errno.ENOENT if number is None else struct.pack("=QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(number)
        if code == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node)
        if code in (_OPEN, _OPENDIR):
            return struct.pack("=QII", 0, 0, 0)
        if code == _READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            with self._files[node].open("rb") as file:
                return os.pread(file.fileno(), size, offset)
        if code == _READDIR:
            return b""
        if code == _STATFS:
            return struct.pack("=QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return b"" if code in (_FLUSH, _RELEASE, _RELEASEDIR) else errno.ENOSYS

    def _attributes(self, number: int) -> bytes:
        """Nothing is cached: each look asks again."""
        if number == _ROOT:
            size, mode = 0, 0o40755
        else:
            size, mode = self._files[number].stat().st_size, 0o100755
        return _ATTRIBUTES.pack(number, size, (size + 511) // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def main() -> None:
    folder, mount_point = map(Path, sys.argv[1:3])
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    words = (b"user_space", os.fsencode(mount_point), b"fuse.test", 0, options.encode())
    if _LIBC.mount(*(ctypes.c_ulong(word) if isinstance(word, int) else word for word in words)):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    _Server(folder, device).serve()


@contextmanager
def in_user_space(folder: Path, mount_point: Path) -> Iterator[subprocess.Popen[str]]:
    """The folder's files below the mount point as well; the process that answers for them."""
    mount_point.mkdir()
    command = [sys.executable, "-I", __file__, str(folder), str(mount_point)]
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
