# SPDX-License-Identifier: Apache-2.0
"""The process that speaks to one JVM, as the user that the JVM runs as: what it can be made to do, that user could do himself.

It says in lines of JSON that the recording was begun, and then, once it is told to stop, what was recorded. It stops the
recording and removes its file whatever becomes of the command: when that is gone, it stops all the same. Before it parses the
file, which is the JVM's, it gives up what only computing doesn't need.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from secrets import token_hex
from typing import NoReturn

from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import open_below
from ssllatency.stopping import readable
from ssllatency.tracing.jfr.attach import Jvm, command, refused, remove
from ssllatency.tracing.jfr.summary import major, settings, summary, times_methods, times_ours
from ssllatency.tracing.planning.confinement import confine, limit

STOP, OLDEST = b"s", 17
_WORKS_S = 60.0  # how long a JVM that lacks processors may take to begin a recording, and to end one
_SPARE_S = 180  # how long after its time a recording ends by itself, if nobody stops it: it waits for those that begin later
_MOST_BYTES = 128 << 20  # of a recording: what is older goes, and the report says so
_PROCESSOR_S = 120
_PR_SET_NO_NEW_PRIVS = 38


def be_helper(jvm: Jvm, told: int, saying: int, duration_s: float) -> NoReturn:
    """Does that in this process, which was forked for it, and ends it. `told` brings STOP, or ends; `saying` takes lines."""
    status = 1
    try:
        gc.disable()
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        _work(jvm, told, saying, duration_s)
        status = 0
    except SsllatencyError as error:
        _say(saying, {"error": str(error)})
    except Exception as error:
        _say(
            saying,
            {"error": f"Speaking to the JVM {jvm.pid} failed ({type(error).__name__}), which is a defect: please report it."},
        )
    finally:
        os._exit(status)


def _work(jvm: Jvm, told: int, saying: int, duration_s: float) -> None:
    _become(jvm)
    release = _release(command(jvm, "VM.version"))
    if major(release) < OLDEST:
        raise SsllatencyError(f"The JVM {jvm.pid} is of JDK {release or 'unknown'}: --jfr takes JDK {OLDEST} or later.")
    timed = times_methods(release) and not times_ours(command(jvm, "JFR.check verbose=true"))
    name = f"ssllatency-{token_hex(16)}"
    path = f"/tmp/{name}.jfr"
    try:
        _start(jvm, name, told, f"settings=none maxsize={_MOST_BYTES} duration={int(duration_s) + _SPARE_S}s filename={path}"
                          f" {settings(timed=timed)}")  # fmt: skip
        started_ns = time.time_ns()
        _say(saying, {"started": release})
        wanted = _is_told_to_stop(told, duration_s + _SPARE_S)
        command(jvm, f"JFR.stop name={name} filename={path}", _WORKS_S)
        data = _recorded(jvm, path) if wanted else b""
    finally:
        remove(jvm, f"{name}.jfr")
    if wanted:
        limit(_PROCESSOR_S)
        confine(saying)
        _say(saying, {"recording": _read(data, jvm.pid, release, started_ns, timed=timed)})


def _start(jvm: Jvm, name: str, told: int, options: str) -> None:
    """Has the JVM record under this name. It says so in words only: whether it does is seen in its list of recordings. Where
    that isn't known, or the command is gone by then, it is told to stop, which it does after it has begun."""
    line = f"JFR.start name={name} {options}"
    try:
        answer = command(jvm, line, _WORKS_S, told)
        if name not in command(jvm, "JFR.check"):
            raise refused(jvm, line, answer)
    except SsllatencyError:
        with suppress(SsllatencyError):
            command(jvm, f"JFR.stop name={name}")
        raise


def _become(jvm: Jvm) -> None:
    """Gives up all rights but those of the JVM's user."""
    try:
        if os.geteuid() == 0:
            os.setgroups([])
        os.setresgid(jvm.gid, jvm.gid, jvm.gid)
        os.setresuid(jvm.uid, jvm.uid, jvm.uid)
    except PermissionError:
        raise SsllatencyError(f"The JVM {jvm.pid} runs as another user: --jfr needs root, or that user.") from None
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _release(answer: str) -> str:
    match = re.search(r"^JDK (\d{1,3}[\w.+-]{0,30})$", answer, re.MULTILINE | re.ASCII)
    return match[1] if match else ""


def _is_told_to_stop(told: int, most_s: float) -> bool:
    """Waits until the command says so (true), is gone, or the time is over."""
    return bool(readable([told], most_s)) and os.read(told, 1) == STOP


def _recorded(jvm: Jvm, path: str) -> bytes:
    try:
        file = open_below(jvm.root_path, path, largest=2 * _MOST_BYTES)
    except OSError as error:
        raise SsllatencyError(f"The recording of the JVM {jvm.pid} can't be read ({error.strerror or error}).") from None
    with os.fdopen(file, "rb") as recording:
        return recording.read(2 * _MOST_BYTES)


def _read(data: bytes, pid: int, release: str, started_ns: int, *, timed: bool) -> object:
    try:
        return asdict(summary(data, pid, release, started_ns, timed=timed))
    except (ValueError, RecursionError, MemoryError) as error:
        return f"The recording of the JVM {pid} can't be read: {error or type(error).__name__}."


def _say(saying: int, line: dict[str, object]) -> None:
    data = memoryview(json.dumps(line).encode() + b"\n")
    try:
        while data:
            data = data[os.write(saying, data) :]
    except OSError:
        pass  # nobody listens any more
