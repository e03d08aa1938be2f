# SPDX-License-Identifier: Apache-2.0
"""Contents of a file, as they are known to those who read files and those who list processes."""

from __future__ import annotations

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class FileFacts:
    """The contents of a file. `libraries`: those of the catalogue that it is or holds; `version`: how the library states it
    there, as "OpenSSL 3.0.19 27 Jan 2026", "" if it doesn't; `others`: (implementation, version) of TLS in it that isn't
    traced; `obstacle`: why TLS in it can't be traced that could be; `by_debug_file`: a separate file names its functions, or
    could if it came. `unnamed`: it has no symbols for the functions that applications call, which were found in other ways, but
    for those of `unfound`. `name` and `release`: what of the version those are, as "OpenSSL" and "3.0.19"; the release is ""
    where it is unknown."""

    libraries: tuple[str, ...] = ()
    version: str = ""
    build_id: str = ""
    others: tuple[tuple[str, str], ...] = ()
    obstacle: str = ""
    by_debug_file: bool = False
    name: str = ""
    release: str = ""
    unnamed: bool = False
    unfound: tuple[str, ...] = ()


NOTHING = FileFacts()
