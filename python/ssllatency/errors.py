# SPDX-License-Identifier: Apache-2.0
"""The one exception that a command turns into a sentence and an exit status, and the advice in one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

TRACEBACK = "SSLLATENCY_TRACEBACK"  # for developers: an unforeseen exception is shown as Python does
_LONGEST_TEXT = 300  # characters of an unforeseen exception
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


class TooManyOpenFiles(SsllatencyError):
    """No more files can be open just now: the same may succeed later."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"{subject} can't be opened, as too many files are open: raise the limit (ulimit -n).")


class Unforeseen(SsllatencyError):
    """An exception that nobody has foreseen, a defect, about one of many processes or files: what it says ends nothing but what
    is done for that one. `words` are the exception's own."""

    def __init__(self, error: Exception) -> None:
        text = " ".join(str(error).split())[:_LONGEST_TEXT]
        words = f"{type(error).__name__}: {text}" if text else type(error).__name__
        super().__init__(f"{words}; this is a defect, please report it ({TRACEBACK}=1 shows where it happened).")
        self.words = words


@contextmanager
def about_one_of_many() -> Iterator[None]:
    """Has an exception that nobody has foreseen be one that is told and counted as those that were: no process, however odd,
    keeps all others from being traced. Developers, who set TRACEBACK, and a machine without memory get it as it is."""
    try:
        yield
    except (SsllatencyError, MemoryError):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        raise Unforeseen(error) from error


def are_too_many_open(error: BaseException) -> bool:
    """Whether the error is that of a call which found no free descriptor."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def raise_if_too_many(error: BaseException, subject: str) -> None:
    """TooManyOpenFiles, without the error behind it, where a call about the subject found no free descriptor."""
    if are_too_many_open(error):
        raise TooManyOpenFiles(subject) from None


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
