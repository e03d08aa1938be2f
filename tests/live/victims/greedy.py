# SPDX-License-Identifier: Apache-2.0
"""A process that maps new files for ever, run by the tests: FOLDER LIBRARY [NUMBER]. Each is a copy of the library, with a name
like libssl's; NUMBER says how many are mapped at the beginning, after which it says "ready"; without it it goes on."""

import mmap
import shutil
import ssl  # noqa: F401 - so that there is a library to trace
import sys
import time
from itertools import count, islice
from pathlib import Path

_KEPT, _PAUSE_S = 2000, 0.002  # files that stay mapped; between two


def main() -> None:
    folder, library = Path(sys.argv[1]), Path(sys.argv[2])
    files = (folder / f"libssl-{number}.so.3" for number in count())
    if len(sys.argv) > 3:
        kept = [mapped(library, file) for file in islice(files, int(sys.argv[3]))]
        print("ready", len(kept), flush=True)
        time.sleep(600)
    held: list[mmap.mmap] = []
    print("ready", flush=True)
    for file in files:
        held.append(mapped(library, file))
        file.unlink()
        time.sleep(_PAUSE_S)
        if len(held) > _KEPT:
            held.pop(0).close()


def mapped(library: Path, file: Path) -> mmap.mmap:
    """A new copy of the library, mapped as code."""
    shutil.copy(library, file)
    with file.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)


main()
