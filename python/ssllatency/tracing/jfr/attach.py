# SPDX-License-Identifier: Apache-2.0
"""Speaks to a JVM as jcmd does: by the socket that HotSpot opens when it is asked to, without a JDK on this machine.

Who asks leaves a file .attach_pidN in the JVM's /tmp and sends SIGQUIT; HotSpot then listens on .java_pidN beside it, and takes
one command a connection. Both names lie in a tree that is the target's: they are resolved with its root as /, the socket is
connected to by a handle on what was looked at, and the kernel says whether the process that listens is the JVM. SIGQUIT, which
ends a program that has no handler for it, is sent only where there is one.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.host.kernel_text import kernel_fields
from ssllatency.safe_open import handle_below
from ssllatency.stopping import readable
from ssllatency.targets.opt_out import opt_out_reason
from ssllatency.targets.processes import PROC

_ANSWERS_S = 10.0  # how long the JVM may take to listen, and for a command that it answers at once
_LOOK_S = 0.05
_MOST_ANSWERED = 1 << 20
_MOST_OF_FIRST = 1024  # bytes of an argument
_MOST_SHOWN = 200
_PEER_CREDENTIALS = struct.Struct("=iII")


@dataclass(frozen=True)
class Jvm:
    """A JVM to speak to. `root` and `process` are descriptors of its root folder and of itself, `inner_pid` is its number
    in its own namespace, `uid` and `gid` are those that it runs as."""

    pid: int
    inner_pid: int
    uid: int
    gid: int
    root: int
    process: int

    @property
    def root_path(self) -> str:
        """The path by which this process has the root."""
        return f"/proc/self/fd/{self.root}"


def open_jvm(pid: int, proc: Path = PROC) -> Jvm:
    """The JVM of this PID. SsllatencyError where it can't be spoken to, or has opted out."""
    if reason := opt_out_reason(pid, proc):
        raise SsllatencyError(f"The JVM {pid} {reason}: it is left alone.")
    try:
        process = os.pidfd_open(pid)
        root = os.open(proc / str(pid) / "root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        fields = kernel_fields(proc / str(pid) / "status")
        words = (proc / str(pid) / "cmdline").read_bytes()
    except OSError as error:
        raise SsllatencyError(f"The JVM {pid} can't be looked at ({error.strerror}).") from None
    if not int(fields["SigCgt"], 16) & 1 << (signal.SIGQUIT - 1):
        raise SsllatencyError(f"The JVM {pid} has no handler for SIGQUIT (-Xrs, or it is just starting), which would end it.")
    if b"-XX:+DisableAttachMechanism" in words.split(b"\0"):
        raise SsllatencyError(f"The JVM {pid} was started with -XX:+DisableAttachMechanism: it takes no commands.")
    inner = fields.get("NSpid", str(pid)).split()[-1]
    return Jvm(pid, int(inner), int(fields["Uid"].split()[1]), int(fields["Gid"].split()[1]), root, process)


def command(jvm: Jvm, line: str, most_s: float = _ANSWERS_S, told: int | None = None) -> str:
    """Return what the JVM answers to a line for jcmd, cut where it is long. SsllatencyError where it doesn't within so many
    seconds, or before the descriptor `told` can be read, or where it failed; it may carry it out all the same, later."""
    with _connected(jvm) as connection:
        try:
            connection.sendall(_request(line))
            answer = _answer(connection, time.monotonic() + most_s, told)
        except OSError as error:
            raise SsllatencyError(f"The JVM {jvm.pid} didn't answer ({error.strerror or 'it took too long'}).") from None
    status, _, text = answer.partition("\n")
    if status.strip() != "0":
        raise refused(jvm, line, text)
    return text


def refused(jvm: Jvm, line: str, answer: str) -> SsllatencyError:
    """The error for a command that the JVM didn't carry out, with the beginning of its answer."""
    said = " ".join(answer.split())[:_MOST_SHOWN]
    return SsllatencyError(f"The JVM {jvm.pid} refused the command {line.split()[0]}: {said or 'it gave no reason'}")


def _request(line: str) -> bytes:
    """A command with one argument, by the first version of the protocol where that has room for it; the second came with JDK
    24."""
    words = b"jcmd\0" + line.encode() + b"\0"
    return b"1\0" + words + b"\0\0" if len(line) <= _MOST_OF_FIRST else b"2\0%d\0" % len(words) + words


def _answer(connection: socket.socket, until_s: float, told: int | None) -> str:
    """TimeoutError where it isn't there in time."""
    descriptors, pieces, size = [connection.fileno(), *([] if told is None else [told])], list[bytes](), 0
    while size < _MOST_ANSWERED:
        if readable(descriptors, max(0.0, until_s - time.monotonic())) != {connection.fileno()}:
            raise TimeoutError
        if not (piece := connection.recv(4096)):
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces).decode(errors="replace")


def _connected(jvm: Jvm) -> socket.socket:
    handle = _socket_handle(jvm)
    if handle is None:
        _have_it_listen(jvm)
        until = time.monotonic() + _ANSWERS_S
        while (handle := _socket_handle(jvm)) is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
    _forget_trigger(jvm)
    if handle is None:
        raise SsllatencyError(f"The JVM {jvm.pid} didn't begin to take commands within {_ANSWERS_S:g} s.")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_ANSWERS_S)
        connection.connect(f"/proc/self/fd/{handle}")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        who, _, _ = _PEER_CREDENTIALS.unpack(credentials)
    except OSError as error:
        connection.close()
        raise SsllatencyError(f"The JVM {jvm.pid} doesn't take commands ({error.strerror or 'it took too long'}).") from None
    finally:
        os.close(handle)
    if who != jvm.pid:
        connection.close()
        raise SsllatencyError(f"Another process ({who}) listens where the JVM {jvm.pid} should: it isn't spoken to.")
    return connection


def _socket_handle(jvm: Jvm) -> int | None:
    """A handle on the JVM's socket, None where there is none. SsllatencyError where something else has its name."""
    try:
        handle = handle_below(jvm.root_path, f"tmp/.java_pid{jvm.inner_pid}", links=False)
    except OSError:
        return None
    status = os.fstat(handle)
    if stat.S_ISSOCK(status.st_mode) and status.st_uid == jvm.uid:
        return handle
    os.close(handle)
    raise SsllatencyError(f"What lies where the JVM {jvm.pid} would listen isn't its socket.")


def _temporary_folder(jvm: Jvm) -> int:
    """The JVM's /tmp."""
    try:
        return handle_below(jvm.root_path, "tmp", links=False)
    except OSError as error:
        raise SsllatencyError(f"The JVM {jvm.pid} has no /tmp to be spoken to by ({error.strerror}).") from None


def _have_it_listen(jvm: Jvm) -> None:
    folder = _temporary_folder(jvm)
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
        os.close(os.open(f".attach_pid{jvm.inner_pid}", flags, 0o600, dir_fd=folder))
    except FileExistsError:
        pass  # somebody else asks at this moment, or did
    except OSError as error:
        raise SsllatencyError(f"The /tmp of the JVM {jvm.pid} can't be written to ({error.strerror}).") from None
    finally:
        os.close(folder)
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(jvm.process, signal.SIGQUIT)


def _forget_trigger(jvm: Jvm) -> None:
    remove(jvm, f".attach_pid{jvm.inner_pid}")


def remove(jvm: Jvm, name: str) -> None:
    """Removes a file of this name from the JVM's /tmp, if it is there."""
    with suppress(OSError, SsllatencyError):
        folder = _temporary_folder(jvm)
        try:
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
