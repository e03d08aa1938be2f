# SPDX-License-Identifier: Apache-2.0
"""A bpftrace that runs: started with a script and its symbols, asked for its maps by SIGUSR1, and killed in the end.

It runs in a session of its own, so that Ctrl-C at the terminal doesn't reach it, and is killed when this process ends, however
that happens. Only maps are read from its standard output, and it prints them only when asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssllatency.engines.base import AttachError
from ssllatency.errors import SsllatencyError
from ssllatency.stopping import readable

LAST = "@zz_end"  # maps are printed in the order of their names: this one ends each print
READY = "attached"
BEGIN = [f"{LAST} = 1;", "@wake = 1;", f'printf("{READY}\\n");']
# A signal that comes just before bpftrace goes to wait for events is seen with the next one only: so there is one each second.
_WAKE = ["", "interval:s:1", "{", "clear(@wake);", "}"]
_OVER = "ended by itself"
EXTRA = [*_WAKE, "", "END", "{", f'printf("{_OVER}\\n");', "}"]
OWN_PROBES = 3
# Since 0.22 (its #3522) the signal prints what a probe of the script prints; until then it printed all maps by itself.
_SIGNAL_IS_A_PROBE = (0, 22)
_ATTACH_TIMEOUT_S, _READ_TIMEOUT_S, _SILENCE_S = 120.0, 30.0, 4.0
_SILENCE: dict[str, Any] = {}
_CROWDING = ("helper_error", "lost_events")
_PR_SET_PDEATHSIG = 1
_SPARE = 64  # probes by which a limit is above what is needed
# Messages to ignore: it raises a limit that recent kernels don't need, and looks for events that it never created.
# It also knows each limit's name of before 0.20, but says that it isn't the one to use.
_HARMLESS = ("couldn't set RLIMIT_MEMLOCK", "uprobe_events", "failed to detach probe", "is deprecated. Use")


def program() -> str:
    """The bpftrace to run. SsllatencyError where there is none."""
    program = shutil.which("bpftrace") or shutil.which("bpftrace", path="/usr/bin:/usr/sbin:/bin:/sbin")
    if not program:
        raise SsllatencyError("bpftrace isn't installed: apt-get install bpftrace.")
    return program


def version(path: str) -> tuple[int, int]:
    """Of the bpftrace at this path. SsllatencyError where it doesn't say."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_READ_TIMEOUT_S, check=False)
    version = re.match(r"bpftrace v(\d+)\.(\d+)", done.stdout)
    if not version:
        raise SsllatencyError(f"{path} doesn't report its version: use another engine.")
    return int(version[1]), int(version[2])


def print_at_signal(script: str) -> str:
    """The probe that prints all maps of a script, those that are read first coming first."""
    maps = sorted(set(re.findall(r"@\w+", script)))
    return "\n".join(["", "self:signal:SIGUSR1", "{", *(f"\tprint({name});" for name in maps), "}", ""])


class Bpftrace:
    """One run. `symbols` are files by the path of the library that each belongs to; `probes` is the number of probes in the
    script, `keys` the most that a map holds. The script has BEGIN in its BEGIN, and EXTRA."""

    def __init__(self, script: str, symbols: Mapping[str, bytes], *, probes: int, keys: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=f"ssllatency-{os.getpid()}-")
        self._maps: dict[str, Any] = {}
        self._pending = b""
        self._ended = self._over = False
        bpftrace = program()
        by_probe = version(bpftrace) >= _SIGNAL_IS_A_PROBE
        self._probes = probes + by_probe
        top = Path(self._directory.name)
        for path, content in symbols.items():
            file = top / "symbols" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (top / "script.bt").write_text(script + print_at_signal(script) if by_probe else script)
        command = [bpftrace, "-f", "json", str(top / "script.bt")]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(top / "symbols", probes + _SPARE, keys),
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()),
        )

    def wait_attached(self) -> None:
        """Waits until every probe is attached. AttachError in bpftrace's own words where one can't be.

        bpftrace silently leaves out a symbol that it doesn't know, so the number of probes that it reports is compared.
        """
        deadline, told = time.monotonic() + _ATTACH_TIMEOUT_S, 0
        while (line := self._line(deadline)) is not None:
            if line is _SILENCE:
                late = f"bpftrace didn't set its probes within {_ATTACH_TIMEOUT_S:.0f} s and {self._said()}"
                raise SsllatencyError(f"{late} Try again when the machine is less busy, or use another engine.")
            if line.get("type") == "attached_probes":
                told = line["data"]["probes"]
            if line.get("data") == f"{READY}\n" and told != self._probes:
                raise AttachError(f"bpftrace set {told} of {self._probes} probes: use another engine.")
            if line.get("data") == f"{READY}\n":
                self._directory.cleanup()  # all is read; nothing stays even if we are killed from here on
                return
        raise AttachError(f"bpftrace {self._said()}")

    def maps(self) -> dict[str, Any]:
        """The contents of the maps now, by name; after end(), the last ones.

        SsllatencyError where it doesn't answer, or has ended by itself, since nothing was counted from then on.
        """
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while not self._ended and not self._take():
            if time.monotonic() > deadline:
                raise SsllatencyError(f"bpftrace didn't say within {_READ_TIMEOUT_S:.0f} s what it counted and {self._said()}")
            while self._line(time.monotonic() + _SILENCE_S) not in (_SILENCE, None):  # a late answer isn't the next one
                pass
        return self._maps

    def end(self) -> None:
        """Reads the maps a last time and ends it. May be called twice.

        The kernel takes a tenth of a second to remove each probe, so the last is gone some seconds later: close() waits for it.
        bpftrace is killed, as otherwise the remaining probes would go on counting.
        """
        self.maps()
        self._ended = True
        self._process.kill()

    def close(self) -> None:
        """Ends it, waits until its probes are off, and removes its files. May be called twice."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()
        self._directory.cleanup()

    def _take(self) -> bool:
        """Asks bpftrace to print all maps and reads them; false where some may be missing.

        Since 0.21 bpftrace prints an error for each call that finds a map full, and these may fill the pipe. They are read
        first: a signal that arrives while bpftrace waits to write stops its output for good.
        """
        while self._process.poll() is None and self._readable(0.0) and self._receive():
            self._pending = self._pending.rpartition(b"\n")[2]
        self._process.send_signal(signal.SIGUSR1)
        maps: dict[str, Any] = {}
        whole = True
        while (line := self._line(time.monotonic() + _SILENCE_S)) is not None:
            whole = whole and line is not _SILENCE and line.get("type") not in _CROWDING
            if line.get("type") == "map":
                maps.update(line["data"])
            if LAST in maps and whole:
                self._maps = maps
            if LAST in maps or line is _SILENCE:
                break
        if line is None or self._over or self._process.poll() is not None:
            raise SsllatencyError(f"bpftrace ended during the run, and {self._said()}")
        return whole

    def _line(self, deadline: float) -> dict[str, Any] | None:
        """The next line that is JSON; None at the end, _SILENCE where nothing comes in time."""
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                self._pending = rest
                if line.startswith(b"{"):
                    return dict(json.loads(line))
                continue
            if not self._readable(max(0.0, deadline - time.monotonic())):
                return _SILENCE
            if not self._receive():
                return None

    def _readable(self, timeout_s: float) -> bool:
        return bool(readable([self._output()], timeout_s))

    def _output(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _receive(self) -> bool:
        """Reads a piece of its output; false at the end."""
        piece = os.read(self._output(), 1 << 20)
        self._pending += piece
        self._over = self._over or _OVER.encode() in self._pending
        return bool(piece)

    def _said(self) -> str:
        # Without moving the place at which bpftrace, too, would write on.
        lines = os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace").splitlines()
        telling = [line.strip() for line in lines if line.strip() and not any(word in line for word in _HARMLESS)]
        return f"said: {telling[0].removeprefix('ERROR: ').rstrip('.')}." if telling else "gave no reason."


def _environment(symbols: Path, probes: int, keys: int) -> dict[str, str]:
    limits = {"MAX_PROBES": probes, "MAX_BPF_PROGS": probes, "MAP_KEYS_MAX": keys, "MAX_MAP_KEYS": keys, "NODE_MAX": 10**7}
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "BCC_SYMFS": str(symbols),
        **{f"BPFTRACE_{name}": str(value) for name, value in limits.items()},
    }


def _end_with(parent: int) -> Any:
    """Runs in the child before it becomes bpftrace: unblocks signals, and has the kernel kill it when its parent is gone."""
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
