# SPDX-License-Identifier: Apache-2.0
"""The build information of a Go executable: Go's version, the modules in it, and with which settings it was built.

It is found by its first bytes. Since Go 1.18 its texts follow them; before, they were somewhere else.
"""

from __future__ import annotations

import re

from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import lines_in
from ssllatency.stacks.go.data import Data

_MAGIC, _ALIGNMENT = b"\xff Go buildinf:", 16
_FLAGS, _TEXTS = 15, 32  # where its flags are, and its texts: each is a length and as many bytes
_INLINE = 2
_FRAME = 16  # bytes around the lines of modules
_LONGEST_VERSION, _LONGEST_MODULES = 128, 1 << 20
_VERSION = re.compile(r"go(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True)
class BuildInfo:
    """`version` as "go1.26.8", "" where it isn't said; `lines` of the modules and settings, words separated by tabs."""

    version: str = ""
    lines: tuple[str, ...] = ()

    @property
    def minor(self) -> int | None:
        """26 of Go 1.26.8; None where that can't be told."""
        match = _VERSION.search(self.version)
        return int(match[2]) if match and match[1] == "1" else None

    def setting(self, name: str) -> str:
        """Return what the program was built with, by a name as CGO_ENABLED, GOFIPS140 or -buildmode; "" where it isn't said."""
        prefix = f"build\t{name}="
        return next((line.removeprefix(prefix) for line in self.lines if line.startswith(prefix)), "")


def build_info(data: Data) -> BuildInfo | None:
    """The build information; None where there is none, without texts where Go was older than 1.18. ElfError where it is
    damaged."""
    for address in data.find(_MAGIC, _ALIGNMENT):
        header = data.read_up_to(address, _TEXTS)
        if len(header) < _TEXTS:
            continue
        if not header[_FLAGS] & _INLINE:
            return BuildInfo()
        length, at = data.length(address + _TEXTS)
        version = data.text(at, min(length, _LONGEST_VERSION))
        length, at = data.length(at + length)
        lines = data.read(at, min(length, _LONGEST_MODULES))[_FRAME:-_FRAME].decode("utf-8", "replace")
        return BuildInfo(version, tuple(lines_in(lines)))
    return None
