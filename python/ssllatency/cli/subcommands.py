# SPDX-License-Identifier: Apache-2.0
"""The subcommands. This brings in nothing else."""

from __future__ import annotations

# The rooms of the subcommands, in the order in which help shows these. Each module has SUMMARY, add_arguments(parser),
# run(arguments).
ROOMS = {
    "trace": "live",
    "top": "live",
    "snoop": "live",
    "handshakes": "live",
    "probes": "host",
    "targets": "host",
    "script": "host",
    "doctor": "host",
    "record": "live",
    "watch": "live",
    "report": "kept",
    "diff": "kept",
    "merge": "kept",
    "load": "live",
    "export": "live",
}
