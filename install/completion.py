# SPDX-License-Identifier: Apache-2.0
"""Writes shell completion for ssllatency and its short commands. shtab makes it from the parser; this module adds the
candidates for values: processes with a TLS library, files, functions.

Usage: python -m install.completion FOLDER
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import shtab

from install.subcommands import parsers
from install.tools import short_commands
from ssllatency.cli.command_line import build_parser, module_of
from ssllatency.probes.catalogue import BY_NAME

# Where each shell looks for completion, below PREFIX/share; {} is the command.
FILES = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
# Lines of PID and name: the processes that map libssl or libcrypto; all but kernel threads if none can be read (before `sudo`).
# A process chooses its own name, so no shell may expand it.
_PROCESSES = """cd /proc || exit
tls_maps=$(grep -lsE "/lib(ssl|crypto)[.-]" [0-9]*/maps)
for pid_folder in ${tls_maps:-$(grep -ls . [0-9]*/cmdline)}; do
  IFS= read -r name 2>/dev/null <"${pid_folder%/*}/comm" && printf "%s %s\\n" "${pid_folder%/*}" "$name"
done"""
_LIST = f"sh -c {shlex.quote(_PROCESSES)}"
_FUNCTIONS = {
    "bash": f"""_ssllatency_pids() {{
  local pid
  while IFS=' ' read -r pid _; do
    [[ $pid == "$1"* && $pid != *[!0-9]* ]] && printf '%s\\n' "$pid"
  done < <({_LIST})
}}
_ssllatency_names() {{
  local name
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$1"* ]] && printf '%s\\n' "$name"
  done < <({_LIST} | cut -d ' ' -f 2- | sort -u)
}}""",
    "zsh": f"""_ssllatency_pids() {{
  local -a processes=("${{(@f)$({_LIST})}}")
  processes=("${{(@)processes/ /:}}")
  _describe -V process processes
}}
_ssllatency_names() {{
  local -a names=("${{(@fu)$({_LIST} | cut -d ' ' -f 2-)}}")
  compadd -a names
}}""",
    "fish": f"""function _ssllatency_pids
  {_LIST} | string replace ' ' \\t
end
function _ssllatency_names
  {_LIST} | string replace -r '^\\d+ ' '' | sort -u
end""",
}


def _called(function: str) -> dict[str, object]:
    """How each shell calls one of our functions for candidates."""
    return {"bash": function, "zsh": function, "fish": f"({function})", "preamble": _FUNCTIONS}


_BY_DESTINATION = {"pid": _called("_ssllatency_pids"), "comm": _called("_ssllatency_names")}
_BY_METAVAR: Mapping[str, object] = {"FILE": shtab.FILE, "PATH": shtab.FILE}


def texts() -> dict[str, str]:
    """The completion by the names of its files below PREFIX/share."""
    commands = {"ssllatency": _prepared(build_parser())}
    for short, name in short_commands().items():
        commands[short] = _prepared(parsers()[name])
        commands[short].prog = short
    return {
        where.format(command): shtab.complete(parser, shell) + "\n"
        for command, parser in commands.items()
        for shell, where in FILES.items()
    }


def _prepared(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser, changed for this purpose: every value has its completion, subcommands are described in one line."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                _prepared(subparser).description = module_of(name).SUMMARY
        elif action.dest == "function":
            action.choices = list(BY_NAME)
        elif completion := _BY_DESTINATION.get(action.dest) or _BY_METAVAR.get(str(action.metavar)):
            action.complete = completion  # type: ignore[attr-defined]
    return parser


def main(folder: Path) -> None:
    for name, text in texts().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
