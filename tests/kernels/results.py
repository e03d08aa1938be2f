# SPDX-License-Identifier: Apache-2.0
"""What a check in the guest found, as it goes from the guest to the host: a line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

KERNEL_LOG = "kernel log"  # the last result of a guest that came to its end


class Outcome(StrEnum):
    """REFUSED: the kernel has no such way, and ssllatency said so as it should; that is what was checked."""

    PASSED = "passed"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """`detail` is the sentence of a refusal, or why the check failed."""

    check: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def to_line(self) -> bytes:
        """The result as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_results(content: bytes) -> list[Result]:
    """The results on the disk that the guest writes them to, whose rest is zeros; a last line cut short is left out."""
    written = content.partition(b"\0")[0]
    lines = written.split(b"\n")[:-1]
    records = (json.loads(line) for line in lines)
    return [Result(**{**record, "outcome": Outcome(record["outcome"])}) for record in records]
