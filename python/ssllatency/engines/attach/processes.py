# SPDX-License-Identifier: Apache-2.0
"""The processes of a request: who they are, what there is to say of them, and what follows those that come later."""

from __future__ import annotations

from ssllatency.engines.base import Request
from ssllatency.engines.follow.following import Following
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Target


class Processes:
    """The processes that one attachment traces, or several do that are attached to the same ones.

    `targets`, `notes` and `late` (those that ran before what they map was traced) are filled by whoever finds the processes.
    `following` keeps the set of them, where the request asks for that and the machine can; `unfollowed` says why it can't.
    """

    def __init__(self, request: Request) -> None:
        self.targets: dict[int, Target] = {target.pid: target for target in request.targets}
        self.notes: list[str] = []
        self.late: set[int] = set()
        self.following: Following | None = None
        self.unfollowed = ""
        if request.following:
            self.following = request.following
        elif request.follow is not None:
            self._follow(request)

    def _follow(self, request: Request) -> None:
        assert request.follow is not None
        try:
            following = Following(request.follow, everyone=request.everyone)
        except SsllatencyError as error:
            self.unfollowed = str(error)
            return
        try:
            following.load()
        except SsllatencyError as error:
            following.close()
            self.unfollowed = str(error)
            return
        self.following = following

    def attach(self) -> None:
        """Has those followed that start from here on, where that is asked for."""
        if self.following:
            self.following.attach()

    def close(self) -> None:
        """Ends that; may be called twice."""
        if self.following:
            self.following.close()
