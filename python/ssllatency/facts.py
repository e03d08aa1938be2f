# SPDX-License-Identifier: Apache-2.0
"""What is in a file, as those know it who read files and those who list processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileFacts:
    """What is in a file. `libraries`: those of the catalogue that it is or holds; `version` what OpenSSL calls itself there;
    `others`: (implementation, version) of TLS in it that isn't traced; `obstacle`: why OpenSSL in it can't be traced;
    `by_debug_file`: a separate file names its functions, or could if it came."""

    libraries: tuple[str, ...] = ()
    version: str = ""
    build_id: str = ""
    others: tuple[tuple[str, str], ...] = ()
    obstacle: str = ""
    by_debug_file: bool = False


NOTHING = FileFacts()
