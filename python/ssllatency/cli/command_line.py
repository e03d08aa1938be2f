# SPDX-License-Identifier: Apache-2.0
"""The command line: parses it, runs the subcommand, and turns each error into one sentence and an exit status."""

from __future__ import annotations

import argparse
import errno
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from ssllatency import __version__
from ssllatency.cli.subcommands import ROOMS
from ssllatency.errors import TRACEBACK, SsllatencyError, Unforeseen, did_you_mean
from ssllatency.output.printing import tell, tell_line, writing_output

SUBCOMMANDS = tuple(ROOMS)
EXAMPLES = (
    ("ssllatency targets", "which processes use TLS on this host, and the PIDs to name"),
    ("ssllatency handshakes -p 812 -d 10", "where the handshakes' time goes, and why some fail"),
    ("ssllatency record -p 812 -d 60 -o before.jsonl", "keep a measurement"),
    ("ssllatency diff before.jsonl after.jsonl", "and compare it with the next"),
)
# STATUS is what a subcommand may end with beside these.
STATUSES = "exit status: 0 success, 1 failure, 2 usage error, 130 interrupted before anything was measured"
OUTPUTS = "Results go to standard output, everything else to standard error."

ROOTS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # where programs are looked for under sudo
_STANDARD_OUTPUT, _DEFAULT_COLUMNS = 1, 80
_PIDS = re.compile(r"[\d\s,]+", re.ASCII)


class _Formatter(argparse.HelpFormatter):
    """argparse's own, which is made for each option: without shutil, which brings in the libraries of archives."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width for help, as shutil.get_terminal_size() has it."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(_STANDARD_OUTPUT).columns or _DEFAULT_COLUMNS
    except OSError:  # no terminal, or closed
        return _DEFAULT_COLUMNS


class _Parser(argparse.ArgumentParser):
    """argparse with a one-sentence error, and with examples in its help: a command each, and what it is for."""

    examples: Sequence[tuple[str, str]] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Formatter, **settings)

    def format_help(self) -> str:
        """The examples stand before the epilog, as they are: commands aren't wrapped."""
        head, _, epilog = super().format_help().rpartition("\n\n")
        lines = [line for command, purpose in self.examples for line in (f"  {command}", f"      {purpose}")]
        return "\n\n".join([head, *(["\n".join(["examples:", *lines])] if lines else []), epilog])

    def error(self, message: str) -> None:  # type: ignore[override]
        if message.endswith("-p/--pid: expected one argument"):  # $(cat FILE) without quotes
            from ssllatency.cli.options import EMPTY_PID

            message += f", and has none: {EMPTY_PID}"
        raise SsllatencyError(f"{message.rstrip('.')}: {self._advice(message)}`{self.prog} --help` shows the options.", 2)

    def _advice(self, message: str) -> str:
        """The subcommand, option or choice that is spelled most like the one that this message rejects; "" if none is close."""
        if match := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            choices = re.findall(r"[\w-]+", match[2])
        elif match := re.search(r"unrecognized arguments: (-\S+)", message):
            choices = self._options()
        else:
            return ""
        return did_you_mean(match[1].partition("=")[0], choices)

    def _options(self) -> list[str]:
        """All options of this parser and of those of its subcommands that were built."""
        built = [self]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                built += action.choices.values()
        return [option for parser in built for option in parser._option_string_actions]


def module_of(subcommand: str) -> ModuleType:
    """The module of one of SUBCOMMANDS."""
    return import_module(f"ssllatency.cli.{ROOMS[subcommand]}.{subcommand}")


def build_parser(subcommand: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command line, or of one subcommand only, so that the others needn't be imported."""
    parser = _Parser(
        prog="ssllatency",
        description="Shows where the latency of server-side TLS goes, on the live server.",
        epilog=f"{STATUSES}. {OUTPUTS}",
    )
    parser.examples = EXAMPLES
    parser.add_argument("-V", "--version", action="version", version=f"ssllatency {__version__}")
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", required=True, parser_class=_Parser)
    for name in [subcommand] if subcommand in SUBCOMMANDS else SUBCOMMANDS:
        module = module_of(name)
        epilog = f"{STATUSES}{getattr(module, 'STATUS', '')}. {OUTPUTS}"
        subparser = subparsers.add_parser(name, help=module.SUMMARY, description=module.__doc__, epilog=epilog)
        module.add_arguments(subparser)
        subparser.examples = getattr(module, "EXAMPLES", ())
        subparser._action_groups.sort(key=lambda group: (group.title or "").startswith("expert"))
        subparser.set_defaults(run=module.run)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit status. What standard output didn't take is still in it where that is told."""
    if _is_sudo():
        os.environ["PATH"] = ROOTS_PATH
    try:
        status = _run(_with_joined_pids(_asked_for_help(arguments)))
        with writing_output():
            sys.stdout.flush()
    except SsllatencyError as error:
        sentence = str(error)
        tell(f"{sentence[:1].lower() if sentence[:2].istitle() else sentence[:1]}{sentence[1:]}")
        for line in error.excerpt:
            tell_line(line)
        return error.status
    except BrokenPipeError:  # the reader has ended (`| head`)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if _is_interruption(error):
            return 130
        if os.environ.get(TRACEBACK):
            raise
        tell_line(_unforeseen(error))
        return 1
    return status


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        from ssllatency.cli.host import targets

        return targets.run_alone()
    _refuse_leading_option(arguments)
    try:
        with _uncollected():
            parsed = build_parser(next(iter(arguments), "")).parse_args(arguments)
    except SystemExit:  # --help and --version have been printed
        return 0
    return int(parsed.run(parsed))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Lets Python's collector rest while modules are brought in, and ever after leave these alone: nothing of them is garbage,
    and looking for it took a tenth of the start."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _asked_for_help(arguments: Sequence[str]) -> Sequence[str]:
    """Turns `help` and `help SUBCOMMAND` into --help options."""
    return [*arguments[1:2], "--help"] if arguments[:1] == ["help"] else arguments


def _with_joined_pids(arguments: Sequence[str]) -> Sequence[str]:
    """Joins PIDs that are words of their own (-p 12 13) by commas. Not for `load`, whose later words are another program's."""
    if arguments[:1] == ["load"]:
        return arguments
    words: list[str] = []
    joining = False
    for place, word in enumerate(arguments):
        if word == "--":
            return [*words, *arguments[place:]]
        if joining and _PIDS.fullmatch(word) and _PIDS.fullmatch(words[-1]):
            words[-1] += f",{word}"
            continue
        joining = (joining and _PIDS.fullmatch(word) is not None) or word in ("-p", "--pid")
        words.append(word)
    return words


def _refuse_leading_option(arguments: Sequence[str]) -> None:
    """SsllatencyError for the options of a subcommand without a subcommand."""
    first = next(iter(arguments), "")
    if first.startswith("-") and first not in ("-h", "--help", "-V", "--version"):
        line = shlex.join(["ssllatency", "handshakes", *arguments])
        raise SsllatencyError(f"name a subcommand first, as in `{line}`: `ssllatency --help` lists them.", 2)


def _is_sudo() -> bool:
    """Whether root runs it on behalf of another user, whose PATH this may be: sudo leaves it where it has no secure_path."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") != "0"


def _is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: Python before 3.12 makes a RuntimeError of one that comes while a class is being made."""
    return isinstance(error, KeyboardInterrupt) or (error is not None and _is_interruption(error.__cause__))


# What the kernel answers to any call, however right, where it has no room, or a limit, a filter or a device is in the way.
_LACKS = frozenset(
    (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EIO, errno.EINTR)
)


def _lack(error: Exception) -> str | None:
    """Return what the machine lacked, None where the error is another one."""
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no further thread"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno in _LACKS else None


def _unforeseen(error: Exception) -> str:
    """The message for an unforeseen exception. By then everything is detached."""
    if isinstance(error, ModuleNotFoundError):  # python3-minimal, or a part that was removed
        return (
            f"ssllatency: {sys.executable} has no module {error.name}: install the whole of Python (apt-get install python3),"
            " or ssllatency anew."
        )
    if (lack := _lack(error)) is not None:
        return (
            f"ssllatency: the system refused what it needs ({lack}): check its limits (`ulimit -a`, the service's), and try"
            f" again; {TRACEBACK}=1 shows where."
        )
    return f"ssllatency failed: {Unforeseen(error)}"
