# SPDX-License-Identifier: Apache-2.0
"""A recorder as the screen needs it, which tracing/top has."""

from __future__ import annotations

from typing import Protocol

from ssllatency.model.live.reading import LiveReading


class ScreenRecorder(Protocol):
    """A recorder that keeps the readings while that is switched on."""

    file: str

    @property
    def running(self) -> bool:
        """Whether readings are being kept."""

    def toggle(self) -> str:
        """Starts or stops; what happened, in a sentence."""

    def take(self, reading: LiveReading) -> str:
        """Takes a reading; a sentence where it couldn't be kept, else ""."""

    def close(self) -> str:
        """Stops; what was kept, "" where nothing was."""
