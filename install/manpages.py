# SPDX-License-Identifier: Apache-2.0
"""Writes the man pages of ssllatency, of its subcommands, of the short commands and of the bpftrace scripts.

Usage: python -m install.manpages FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from install import scripts, subcommands
from install.tools import bpftrace_scripts, short_commands


def texts() -> dict[str, str]:
    """The pages by the names of their files."""
    pages = [*subcommands.pages(), *map(scripts.page_of, bpftrace_scripts())]
    files = {page.file: page.write() for page in pages}
    return files | {f"{short}.1": f".so man1/ssllatency-{name}.1\n" for short, name in short_commands().items()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.1"):
        file.unlink()
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
