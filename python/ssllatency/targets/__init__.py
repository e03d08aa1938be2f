# SPDX-License-Identifier: Apache-2.0
"""Who is traced: processes, the files that they map, and the kernel's own handle on such a file.

Everything here only reads under /proc; the root of that tree is a parameter, so that a made-up tree can stand in for it.
"""

from __future__ import annotations

from ssllatency.targets import listing
from ssllatency.targets.containers import Container
from ssllatency.targets.files import NoTlsFile, TracedFile, tls_files
from ssllatency.targets.hazards import Hazards, hazards, possible_hazards
from ssllatency.targets.maps import MappedFile, executable_path, mapped_files
from ssllatency.targets.opening import file_identity, open_mapped
from ssllatency.targets.processes import Process, all_processes, descendants
from ssllatency.targets.selection import Selection, select
from ssllatency.targets.survey import FileFacts, Survey, survey

__all__ = [
    "Container",
    "FileFacts",
    "Hazards",
    "MappedFile",
    "NoTlsFile",
    "Process",
    "Selection",
    "Survey",
    "TracedFile",
    "all_processes",
    "descendants",
    "executable_path",
    "file_identity",
    "hazards",
    "listing",
    "mapped_files",
    "open_mapped",
    "possible_hazards",
    "select",
    "survey",
    "tls_files",
]
