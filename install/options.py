# SPDX-License-Identifier: Apache-2.0
"""An argparse parser's options as roff. A longer explanation in the docs replaces an option's help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping

from install.roff import bold, escape, filled, italic, term

_REPEATED = (argparse._AppendAction, argparse._ExtendAction)


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options and operands that help shows, as it shows them: options first."""
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return sorted(actions, key=lambda action: not action.option_strings)


def synopsis(parser: argparse.ArgumentParser) -> list[str]:
    """How the command is called."""
    words = [f"[{_call(action)}]" if action.option_strings else _value(action) for action in shown(parser)]
    hung = (word.replace(" ", r"\ ") for word in words)
    return [".SY " + escape(parser.prog).replace("-", r"\-").replace(" ", r"\ "), *hung, ".YS"]


def listed(parser: argparse.ArgumentParser, longer: Mapping[str, str]) -> list[str]:
    """Every option by group, with its help, or with its explanation in `longer`: roff by option string."""
    lines: list[str] = []
    plain = ("options", "positional arguments")
    for group in sorted(parser._action_groups, key=lambda group: group.title not in plain):
        actions = [action for action in group._group_actions if action in shown(parser)]
        if actions and group.title not in plain:
            lines.append(f".SS {escape(group.title or '')}")
        for action in actions:
            body = next((longer[word] for word in action.option_strings if word in longer), "") or _help(parser, action)
            lines += term(_head(action), filled(body))
    return lines


def explained(text: str) -> tuple[str, str] | None:
    """The option string and the explanation of an item, given as roff, that explains a single option."""
    match = re.match(r"\\fB((?:\\-){1,2}[a-z\\-]+)(?:[^,\n\\]|\\[^f])*\\fP: (.+)", text, re.DOTALL)
    return (match[1].replace("\\", ""), match[2]) if match else None


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action)
    return escape(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))


def _head(action: argparse.Action) -> str:
    if not action.option_strings:
        return r"|\:".join(_names(action))
    value = f" {_value(action)}" if action.nargs != 0 else ""
    return ", ".join(bold(word) for word in action.option_strings) + value


def _call(action: argparse.Action) -> str:
    value = f" {_value(action)}" if action.nargs != 0 else ""
    return bold(action.option_strings[0]) + value + (" ..." if isinstance(action, _REPEATED) else "")


def _value(action: argparse.Action) -> str:
    many = {"*": "[{} ...]", "+": "{} ...", "?": "[{}]", argparse.PARSER: "{} ..."}
    pattern = many.get(str(action.nargs), "{}")
    return pattern.format(r"|\:".join(_names(action)))


def _names(action: argparse.Action) -> Iterator[str]:
    if action.metavar is None and action.choices is not None:
        return (bold(str(choice)) for choice in action.choices)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return iter((italic(metavar),))
