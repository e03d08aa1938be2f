# SPDX-License-Identifier: Apache-2.0
"""`ssllatency watch` as a person would run it, and the incidents that it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ssllatency.model.recording import Recording
from ssllatency.reports.documents.recording_reading import from_text
from tests.live.commands.trace import Trace


class Watch(Trace):
    """Watches until the end of the block; writes recordings into `folder`. `incidents`: its lines, after the block."""

    SUBCOMMAND = "watch"

    def __init__(self, folder: Path, when: str, *pids: int, options: tuple[str, ...] = ()) -> None:
        super().__init__(*pids, options=("--when", when, "-o", str(folder), *options))
        self.folder = folder
        self.incidents: list[dict[str, Any]] = []

    def _keep(self, text: str) -> None:
        self.incidents = [json.loads(line) for line in text.splitlines()]

    @property
    def recordings(self) -> list[Recording]:
        """What is in the folder by now."""
        return [from_text(file.read_text(), file.name) for file in sorted(self.folder.glob("*.jsonl"))]
