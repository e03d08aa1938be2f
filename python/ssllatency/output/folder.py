# SPDX-License-Identifier: Apache-2.0
"""A folder for recordings that are written one by one without end: each gets a name by its time, and the oldest make room for
the newest. Only files are removed that have such a name, are regular and our own."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ssllatency.errors import SsllatencyError
from ssllatency.output import files as output_files

_NAME = re.compile(r"ssllatency-\d{8}T\d{6}Z(?:-\d{1,3})?\.jsonl", re.ASCII)
_MODE = 0o700
_MOST_OF_A_SECOND = 100


class Folder:
    """At most `most` recordings in the folder of this name, and at most so many bytes of them, the newest in any case. It is
    made where it isn't there. SsllatencyError where it can't be written to."""

    def __init__(self, name: str, most: int, most_bytes: int) -> None:
        self._path, self._most, self._most_bytes = Path(name), most, most_bytes
        with output_files.refusing(name):
            if not self._path.is_dir():
                self._path.mkdir(_MODE)
        if not os.access(self._path, os.W_OK | os.X_OK):
            raise SsllatencyError(f"{name} can't be written: it isn't yours.")

    def keep(self, text: str) -> Path:
        """Writes a recording, whole or not at all; its path. SsllatencyError where it can't be written."""
        stamp = f"ssllatency-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        names = (f"{stamp}{f'-{number}' if number else ''}.jsonl" for number in range(_MOST_OF_A_SECOND))
        path = next((path for name in names if not os.path.lexists(path := self._path / name)), None)
        if path is None:
            raise SsllatencyError(
                f"A recording of {stamp} can't be written: {self._path} has {_MOST_OF_A_SECOND} of that second already."
            )
        output_files.write(str(path), text)
        self._make_room(path)
        return path

    def _make_room(self, newest: Path) -> None:
        kept = total = 0
        newest_first = sorted(self._recordings(), key=lambda recording: recording[0].stem, reverse=True)  # names are times
        for path, size in newest_first:
            kept, total = kept + 1, total + size
            if path != newest and (kept > self._most or total > self._most_bytes):
                with suppress(OSError):
                    path.unlink()

    def _recordings(self) -> list[tuple[Path, int]]:
        """Those that are ours, with their sizes."""
        found = []
        for entry in os.scandir(self._path):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if _NAME.fullmatch(entry.name) and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    found.append((Path(entry.path), status.st_size))
        return found


def recordings_near(name: str, at_s: float | None) -> list[str]:
    """The recordings of the folder of this name that may be of that time, the best first: the one that was written next, if it
    goes back so far, and the last one before. Without a time the newest. SsllatencyError where there is none."""
    try:
        found = [entry.name for entry in os.scandir(name) if _NAME.fullmatch(entry.name)]
    except OSError as error:
        raise SsllatencyError(f"{name} can't be read: {error.strerror}.") from None
    names = sorted(found, key=lambda other: other.removesuffix(".jsonl"))
    if not names:
        raise SsllatencyError(f"{name} has no file that is named as `ssllatency watch` names recordings: name one.")
    before = [other for other in names if at_s is None or _written_s(other) < at_s]
    return [str(Path(name) / other) for other in (*names[len(before) :][:1], *before[-1:])]


def _written_s(name: str) -> float:
    """The time at which the recording of that name was written, with the whole second that the name tells."""
    stamp = name.removesuffix(".jsonl").split("-")[1]
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() + 1
    except ValueError:  # a month that there isn't
        return 0.0
