# SPDX-License-Identifier: Apache-2.0
"""The files in tools/ that are for users: bpftrace scripts, and short commands for subcommands."""

from __future__ import annotations

from pathlib import Path

from ssllatency.cli.command_line import SUBCOMMANDS

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def bpftrace_scripts() -> list[Path]:
    """The scripts that need only bpftrace."""
    return sorted(TOOLS.glob("*.bt"))


def short_commands() -> dict[str, str]:
    """The subcommand that each of tools/sslNAME runs."""
    return {f"ssl{name}": name for name in SUBCOMMANDS if (TOOLS / f"ssl{name}").is_file()}
