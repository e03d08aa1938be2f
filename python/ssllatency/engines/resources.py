# SPDX-License-Identifier: Apache-2.0
"""Resources of this process beside the kernel's maps and programs: the C library's heap, and open files."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import resource
from contextlib import suppress

from ssllatency.c_library import c_library

_MANY_OBJECTS = 500_000  # made since Python looked last, and not freed; a scrape of 10,000 series first makes 50,000
_M_ARENA_MAX = -8  # of malloc.h
_FILES_OF_A_START = 512  # more than a start opens, of which most are maps and programs


def trim_heap() -> None:
    """Gives the kernel back what is free in the C library's heap, of which libbpf takes several MiB while it loads programs.
    Not where the library can't: musl's has no malloc_trim(3)."""
    trim = getattr(c_library(), "malloc_trim", None)
    if trim:
        trim(ctypes.c_size_t(0))


def keep_one_heap() -> None:
    """Has threads share the C library's heap: each would else keep one of its own, with what it has freed. To be called before
    they start. Not where the library can't: musl's has no mallopt(3)."""
    set_option = getattr(c_library(), "mallopt", None)
    if set_option:
        set_option(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(1))


def collect_seldom() -> None:
    """Has Python look less often for garbage that refers to itself, and never among what there is by now. For a process that
    makes thousands of objects at a time, which replace as many and are free without that: looking took a fifth of a scrape."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MANY_OBJECTS)


def take_all_files() -> None:
    """Raises the soft bound on open files to the hard one: a perf event and its link are two descriptors for each site of each
    process, and the 1,024 of the usual soft bound are those of five processes with a hundred sites, or of 200 files with their
    links."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # refused where the hard bound is past fs.nr_open; attaching says what it lacks
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def make_room_for_files() -> None:
    """Has the kernel make this process's table of open files as large as a start needs. To be called before there is a second
    thread: from then on the kernel waits for an RCU grace period, some 15 ms, each time that it has to double the table."""
    with suppress(OSError):  # the bound on open files is below that
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FILES_OF_A_START - 1))
