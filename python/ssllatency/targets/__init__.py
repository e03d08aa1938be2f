# SPDX-License-Identifier: Apache-2.0
"""Targets: processes, the files that they map, and the kernel's own handle on such a file. Everything here only reads
below /proc, whose path is a parameter, so that tests can pass a tree of their own."""

from __future__ import annotations

from ssllatency.targets import listing
from ssllatency.targets.childless import can_have_children
from ssllatency.targets.code import CodeState, code_byte, code_state
from ssllatency.targets.containers.cgroups import cgroup_folder, is_unified
from ssllatency.targets.expected import ExpectedFile, expected_files, named_files, open_expected, root_paths
from ssllatency.targets.files import (
    MOST_OF_PROCESS,
    ProcessMaps,
    TracedFile,
    descriptor_of,
    may_hold_tls,
    most_important,
    none_found,
    open_file,
    open_shared,
    opened,
    read_processes,
    tls_candidates,
    tls_files,
)
from ssllatency.targets.hazards import Hazards, hazards, possible_hazards
from ssllatency.targets.identity import FileVersion, Identity, MappedFile, Numbers, mapped_numbers, mapped_version, status_told
from ssllatency.targets.maps import Problem, executable_path, mapped_files, read_maps
from ssllatency.targets.opening import file_identity, name_processes, open_mapped
from ssllatency.targets.opt_out import NEVER, VARIABLE, has_opted_out, has_variable, never_notes, opt_out_reason, read_never
from ssllatency.targets.processes import Process, all_processes, descendants, exists, process_of, root_of, root_of_any
from ssllatency.targets.roots import debug_roots
from ssllatency.targets.selection import OPTIONS, Members, Selection, kept_comm, members, select, with_folder
from ssllatency.targets.sockets.listening import is_own, serving
from ssllatency.targets.survey import Survey, survey, tls_stacks

__all__ = [
    "MOST_OF_PROCESS",
    "NEVER",
    "OPTIONS",
    "VARIABLE",
    "CodeState",
    "ExpectedFile",
    "FileVersion",
    "Hazards",
    "Identity",
    "MappedFile",
    "Members",
    "Numbers",
    "Problem",
    "Process",
    "ProcessMaps",
    "Selection",
    "Survey",
    "TracedFile",
    "all_processes",
    "can_have_children",
    "cgroup_folder",
    "code_byte",
    "code_state",
    "debug_roots",
    "descendants",
    "descriptor_of",
    "executable_path",
    "exists",
    "expected_files",
    "file_identity",
    "has_opted_out",
    "has_variable",
    "hazards",
    "is_own",
    "is_unified",
    "kept_comm",
    "listing",
    "mapped_files",
    "mapped_numbers",
    "mapped_version",
    "may_hold_tls",
    "members",
    "most_important",
    "name_processes",
    "named_files",
    "never_notes",
    "none_found",
    "open_expected",
    "open_file",
    "open_mapped",
    "open_shared",
    "opened",
    "opt_out_reason",
    "possible_hazards",
    "process_of",
    "read_maps",
    "read_never",
    "read_processes",
    "root_of",
    "root_of_any",
    "root_paths",
    "select",
    "serving",
    "status_told",
    "survey",
    "tls_candidates",
    "tls_files",
    "tls_stacks",
    "with_folder",
]
