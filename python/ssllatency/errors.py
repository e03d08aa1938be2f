# SPDX-License-Identifier: Apache-2.0
"""The one exception that a command turns into a sentence and an exit status, and the advice in one."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 64  # longer words aren't compared with others: that takes its time


class SsllatencyError(Exception):
    """One sentence for the person at the terminal: what was wrong and what to do.

    `status` is the exit status of the command: 1 failed, 2 misuse. `excerpt`: lines below the sentence that show the place.
    """

    excerpt: tuple[str, ...] = ()

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


class Absent(SsllatencyError):
    """The target of a command doesn't exist now, but may appear later."""


def phrase(error: BaseException) -> str:
    """Return an error's sentence without the full stop, for within another one."""
    return str(error).rstrip(".")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question whether the most similar of the known names was meant, with a space after it; "" where none is similar."""
    from difflib import get_close_matches  # for this alone

    if len(word) > _LONGEST:
        return ""
    meant = get_close_matches(word, dict.fromkeys(filter(None, known)), 1)
    return f"did you mean {meant[0]}? " if meant else ""
