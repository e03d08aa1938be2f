# SPDX-License-Identifier: Apache-2.0
"""A trace by the command itself, as a person would run it, and a few questions to the document that it prints."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests import schema

PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "ssllatency"
ATTACH_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0

Document = dict[str, Any]


class TraceError(RuntimeError):
    """The command did not attach, or did not end as it should; the text holds what it wrote to standard error."""


def why_not() -> str | None:
    """Why this machine can't trace, in the doctor's own words; None when it can.

    Raises TraceError when the doctor itself fails, which is no reason to skip a test.
    """
    done = subprocess.run([PROGRAM, "doctor", "--quiet"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and not done.stdout.strip():
        raise TraceError(f"ssllatency doctor failed: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode else None


class Trace:
    """`ssllatency trace --json` on some processes and their children, attached from `with` to the end of the block.

    `prefix` is a command that runs the trace. `exact`: with --exact, where `options` name no budget. `document` is there after
    the block. Leave the block only when the calls to be counted are over.
    """

    SUBCOMMAND = "trace"

    def __init__(self, *pids: int, options: tuple[str, ...] = (), prefix: tuple[str, ...] = (), exact: bool = True) -> None:
        targets = [word for pid in pids for word in ("-p", str(pid))]
        options = (*options, *(("--exact",) if exact and "--budget" not in options else ()))
        self._command = [*prefix, str(PROGRAM), self.SUBCOMMAND, *targets, "-d", "600", "--json", *options]
        self.document: Document = {}
        self._words: list[str] = []
        self._attached = threading.Event()

    def __enter__(self) -> Self:
        self._output = tempfile.TemporaryFile("w+")  # however much it prints, it never waits for us
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read_words, daemon=True)
        self._reader.start()
        self._attached.wait(ATTACH_TIMEOUT_S)
        if not any(line.startswith("Tracing") for line in self._words):
            self._kill()
            raise TraceError(f"the trace did not attach: {self._said()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._kill()
            return
        self._process.send_signal(signal.SIGINT)
        self._keep(self._result())

    @property
    def pid(self) -> int:
        """The command's own."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it hasn't ended by itself."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Sends the command a signal."""
        self._process.send_signal(number)

    def wait_until_said(self, word: str, timeout_s: float = 20.0) -> None:
        """Waits until it has written a word to standard error. TraceError where it doesn't."""
        deadline = time.monotonic() + timeout_s
        while not any(word in line for line in self._words):
            if time.monotonic() > deadline:
                self._kill()
                raise TraceError(f"the trace didn't say {word!r}: {self._said()}")
            time.sleep(0.01)

    def _read_words(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._words.append(line)
            if line.startswith("Tracing"):
                self._attached.set()
        self._attached.set()

    def _keep(self, text: str) -> None:
        """Takes what the command has printed."""
        self.document = json.loads(text)
        schema.check(self.document)

    def _result(self) -> str:
        guard = threading.Timer(STOP_TIMEOUT_S, self._process.kill)
        guard.start()
        status = self._process.wait()
        guard.cancel()
        self._reader.join(5)
        if status != 0:
            raise TraceError(f"the trace ended with status {status}: {self._said()}")
        with self._output:
            self._output.seek(0)
            return self._output.read()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5)

    def _said(self) -> str:
        return "".join(self._words).strip() or "it wrote nothing to standard error"


def count(document: Document, function: str, outcome: str = "success") -> int:
    """How many calls of a function ended so, in all processes together; 0 where the document names none."""
    rows = document["functions"]
    return sum(row["count"] for row in rows if row["function"] == function and row["outcome"] == outcome)


def counts(document: Document, functions: list[str]) -> dict[str, int]:
    """The successful calls of each of these functions."""
    return {function: count(document, function) for function in functions}


def reasons(document: Document, function: str, outcome: str) -> Counter[str]:
    """The reasons of a function's calls with one outcome, in all processes."""
    found: Counter[str] = Counter()
    for row in document["functions"]:
        if (row["function"], row["outcome"]) == (function, outcome):
            found.update(row["reasons"])
    return found


def losses(document: Document) -> dict[str, int]:
    """The losses that aren't zero."""
    return {name: number for name, number in document["losses"].items() if number}


def counted_pids(document: Document, function: str) -> set[int]:
    """The processes in which a function was counted; needs a trace with --by-process."""
    return {row["pid"] for row in document["functions"] if row["function"] == function}


def _told_of_files(pid: int) -> str:
    """What the kernel tells of all files that a process has open."""
    told = ""
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            told += file.read_text()
    return told


def links_of(pid: int) -> set[int]:
    """The numbers of the links that a process holds."""
    return {int(number) for number in re.findall(r"^link_id:\s*(\d+)$", _told_of_files(pid), re.MULTILINE)}


def tracepoints(pid: int) -> set[str]:
    """The raw tracepoints to which it has links."""
    return set(re.findall(r"^tp_name:\s+(\w+)$", _told_of_files(pid), re.MULTILINE))


def links_left(links: set[int]) -> set[int]:
    """Which of these links the kernel still knows."""
    shown = subprocess.run(["bpftool", "-j", "link", "show"], check=True, capture_output=True, text=True).stdout
    return links & {link["id"] for link in json.loads(shown or "[]")}
