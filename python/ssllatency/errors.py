# SPDX-License-Identifier: Apache-2.0
"""The one exception that a command turns into a sentence and an exit status."""


class SsllatencyError(Exception):
    """One sentence for the person at the terminal: what was wrong and what to do.

    `status` is the exit status of the command: 1 failed, 2 misuse.
    """

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


class Absent(SsllatencyError):
    """The target of a command doesn't exist now, but may appear later."""
