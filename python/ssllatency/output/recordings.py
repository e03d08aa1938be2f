# SPDX-License-Identifier: Apache-2.0
"""Files that keep measurements: read, and opened for writing."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
from datetime import datetime
from typing import BinaryIO

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.output import files as output_files
from ssllatency.output.folder import recordings_near
from ssllatency.output.printing import tell
from ssllatency.reports.documents.recording_reading import from_text

MOST_BYTES = 256 << 20  # of a file that is read


def read(name: str) -> Recording:
    """The recording in a file, - for standard input. What a run has to say about itself goes to standard error."""
    return _with_notes(from_text(_text(name), "standard input" if name == "-" else name))


def _with_notes(recording: Recording) -> Recording:
    for note in dict.fromkeys(note for run in recording.runs for note in run.notes):
        tell(f"{recording.label}: {note}")
    return recording


def read_near(folder: str, at_s: float | None) -> Recording:
    """The recording of the folder of `watch` that is of that time, or the last one before it; without a time the newest. Its
    name, and when it is from, go to standard error. SsllatencyError where there is none."""
    recording = None
    for name in recordings_near(folder, at_s):
        recording = from_text(_text(name), name)
        if at_s is None or datetime.fromisoformat(recording.started).timestamp() <= at_s:
            tell(f"{name} is from {recording.started} on.")
            return _with_notes(recording)
    began = f"the first is from {recording.started} on" if recording else "there is none"
    raise SsllatencyError(f"{folder} has no recording of that time, nor of before: {began}.")


def _text(name: str) -> str:
    """At most MOST_BYTES of a regular file, or of standard input: nothing else is waited for, or read without an end."""
    try:
        content = _at_most(sys.stdin.buffer) if name == "-" else _of_file(name)
    except OSError as error:
        raise SsllatencyError(f"{name} can't be read: {error.strerror}.") from None
    if len(content) > MOST_BYTES:
        raise SsllatencyError(
            f"{name} is larger than {MOST_BYTES >> 20} MiB: record with longer intervals, or split it by lines."
        )
    return content.decode(errors="replace")


def _of_file(name: str) -> bytes:
    """A pipe that a shell has opened for us, as <(zcat FILE) does, is waited for."""
    is_ours = name.startswith(("/dev/fd/", "/proc/self/fd/"))
    descriptor = os.open(name, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | (0 if is_ours else os.O_NONBLOCK))
    with os.fdopen(descriptor, "rb") as file:
        if not (is_ours or stat.S_ISREG(os.fstat(descriptor).st_mode)):
            raise SsllatencyError(f"{name} isn't a regular file: - reads standard input.")
        return _at_most(file)


def _at_most(file: BinaryIO) -> bytes:
    return file.read(MOST_BYTES + 1)


def add_output_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that say where a recording is written."""
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help="the file to write")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it is there")


def refuse_overwriting(name: str, *, force: bool) -> None:
    """SsllatencyError where the file is there already and isn't to be overwritten."""
    if not force and os.path.lexists(name):
        raise SsllatencyError(f"{name} is there already: --force overwrites it.")


class Writer:
    """A file that is written line by line, each of them kept on the disk before the next begins. A context manager.

    SsllatencyError where the file is there already, unless `force`, or can't be written.
    """

    def __init__(self, name: str, *, force: bool = False) -> None:
        self._name = name
        refuse_overwriting(name, force=force)
        with output_files.refusing(name):
            self._fd = output_files.create(name, replace=force)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def write(self, line: str) -> None:
        """Adds a line that ends in a newline."""
        rest = memoryview(line.encode())
        with output_files.refusing(self._name):
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._keep()

    def _keep(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe, say
                raise
