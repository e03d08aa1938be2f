# SPDX-License-Identifier: Apache-2.0
"""A bpftrace that runs: started with a script and its symbols, asked for its maps by SIGUSR1, ended by SIGINT.

It is in a session of its own, so that Ctrl-C at the terminal doesn't reach it, and ends with us, whatever ends us. Of its
standard output nothing but maps is read; it writes some only when it is asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
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

LAST = "@zz_end"  # maps are printed in the order of their names: this one ends each print
READY = "attached"
BEGIN = [f"{LAST} = 1;", "@wake = 1;", f'printf("{READY}\\n");']
# A signal that comes just before bpftrace goes to wait for events is seen with the next one only: so there is one each second.
WAKE = ["", "interval:s:1", "{", "clear(@wake);", "}"]
OWN_PROBES = 2
_ATTACH_TIMEOUT_S, _READ_TIMEOUT_S = 120.0, 30.0
_PR_SET_PDEATHSIG = 1
_SPARE = 64  # probes by which a limit is above what is needed
# Not bpftrace's own trouble: it raises a limit that recent kernels don't need, and looks for events that it never made.
_HARMLESS = ("couldn't set RLIMIT_MEMLOCK", "uprobe_events", "failed to detach probe")


def program() -> str:
    """The bpftrace to run. SsllatencyError where there is none."""
    found = shutil.which("bpftrace") or shutil.which("bpftrace", path="/usr/bin:/usr/sbin:/bin:/sbin")
    if not found:
        raise SsllatencyError("bpftrace isn't installed: apt-get install bpftrace.")
    return found


class Bpftrace:
    """One run. `symbols` are files by the path of the library that each belongs to; `probes` is the number of probes in the
    script, `keys` the most that a map holds. The script has BEGIN in its BEGIN, and WAKE."""

    def __init__(self, script: str, symbols: Mapping[str, bytes], *, probes: int, keys: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=f"ssllatency-{os.getpid()}-")
        self._maps: dict[str, Any] = {}
        self._pending = b""
        self._probes = probes
        self._ended = False
        top = Path(self._directory.name)
        for path, content in symbols.items():
            file = top / "symbols" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (top / "script.bt").write_text(script)
        command = [program(), "-f", "json", str(top / "script.bt")]
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
        """Waits until every probe is set. AttachError in bpftrace's own words where one can't be.

        A symbol that it doesn't know it leaves out without a word: so the number that it tells is compared.
        """
        deadline, told = time.monotonic() + _ATTACH_TIMEOUT_S, 0
        while (line := self._line(deadline)) is not None:
            if line.get("type") == "attached_probes":
                told = line["data"]["probes"]
            if line.get("data") == f"{READY}\n" and told != self._probes:
                raise AttachError(f"bpftrace set {told} of {self._probes} probes: take another engine.")
            if line.get("data") == f"{READY}\n":
                self._directory.cleanup()  # all is read; nothing stays even if we are killed from here on
                return
        raise AttachError(f"bpftrace {self._said()}")

    def maps(self) -> dict[str, Any]:
        """What the maps hold now, by name; once it has ended, what they held last."""
        if not self._ended:
            self._process.send_signal(signal.SIGUSR1)  # nothing happens where it has ended by itself, having printed its maps
            self._take(_READ_TIMEOUT_S)
        return self._maps

    def end(self) -> None:
        """Reads the maps a last time and ends it. May be called twice.

        The kernel takes a tenth of a second over each probe, so that the last is off some seconds later: close() waits for it.
        It is killed, as otherwise those still set would count on.
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

    def _take(self, timeout_s: float) -> bool:
        """Reads one print of all maps; false where it printed no more."""
        found: dict[str, Any] = {}
        deadline = time.monotonic() + timeout_s
        while (line := self._line(deadline)) is not None:
            if line.get("type") == "map":
                found.update(line["data"])
            if LAST in found:
                self._maps = found
                return True
        return False

    def _line(self, deadline: float) -> dict[str, Any] | None:
        """The next line that is JSON; None at the end. SsllatencyError where nothing comes in time."""
        assert self._process.stdout is not None
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                self._pending = rest
                if line.startswith(b"{"):
                    return dict(json.loads(line))
                continue
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise SsllatencyError(f"bpftrace doesn't answer: {self._said()}")
            piece = os.read(self._process.stdout.fileno(), 1 << 20)
            if not piece:
                return None
            self._pending += piece

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
    """What the child does before it becomes bpftrace: takes signals, and is killed when its parent is gone."""
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
