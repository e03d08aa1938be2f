# SPDX-License-Identifier: Apache-2.0
"""What is found out about a file through the cache, as the commands ask for it: by a process of its own where it isn't kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssllatency.openssl.names.library import names
from ssllatency.openssl.names.names import Names
from ssllatency.probes.cache.handshakes import HANDSHAKE_PLANS, HandshakeSettings
from ssllatency.probes.cache.kept import Cache, Run, Subject
from ssllatency.probes.cache.names import NAMES
from ssllatency.probes.cache.plans import PLANS, PlanSettings
from ssllatency.probes.handshake.plan import HandshakePlan
from ssllatency.probes.plan import ImagePlan
from ssllatency.tracing.planning import run_apart


@dataclass(frozen=True)
class Asker:
    """Asks about files, each time through the cache in `directory`. The answers say as well whether they were kept."""

    directory: Path
    roots: tuple[str, ...] = ("/",)
    run: Run = run_apart

    def plan(self, path: Path, **settings: Any) -> tuple[ImagePlan, bool]:
        """The plan; `settings` as PlanSettings has them."""
        asked = PlanSettings(**settings)
        return self._cache.found(PLANS, self._subject(path), asked.key, asked.make, self.run)

    def handshake_plan(self, path: Path, **settings: Any) -> tuple[HandshakePlan, bool]:
        """The handshake plan; `settings` as HandshakeSettings has them."""
        asked = HandshakeSettings(**settings)
        return self._cache.found(HANDSHAKE_PLANS, self._subject(path), asked.key, asked.make, self.run)

    def names(self, path: Path) -> tuple[Names, bool]:
        """The names."""
        return self._cache.found(NAMES, self._subject(path), (), names, self.run)

    @property
    def _cache(self) -> Cache:
        return Cache(self.directory)

    def _subject(self, path: Path) -> Subject:
        return Subject(str(path), str(path), self.roots)


def code_that_asks(kind: str, settings: str, path: Path, directory: Path) -> str:
    """Python that takes what is kept, `found`. `kind` and `settings` as it is to write them, each with its module's name."""
    module = f"ssllatency.probes.cache.{kind.split('.')[0]}"
    return (
        f"import {module} as {kind.split('.')[0]}\n"
        "from ssllatency.probes.cache.kept import Cache, Subject\n"
        f"subject = Subject({str(path)!r}, {str(path)!r})\n"
        f"found = Cache(Path({str(directory)!r})).kept({kind}, subject, {settings})\n"
    )
