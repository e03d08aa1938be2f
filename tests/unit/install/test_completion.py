# SPDX-License-Identifier: Apache-2.0
"""Completion, asked for in the shells themselves."""

from __future__ import annotations

import os
import shlex
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import programs

from install import completion
from install.subcommands import parsers
from install.tools import TOOLS, short_commands
from ssllatency.cli.command_line import SUBCOMMANDS

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p "$1"); function=${function##*-F }
"${function% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "source $argv[1]; complete -C $argv[2]"
# In a terminal of its own, as zsh completes nowhere else; it ends when the word has appeared.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; LISTMAX=10000; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D; stty cols 200; echo re''ady"
zpty -r -m shell got '*ready*'
zpty -w -n shell "$2"$'\\t\\t'
zpty -r -m shell got "*$3*" && print -r -- "$got"
zpty -d shell
"""
# Names of processes that a shell would make something else of.
ODD_NAMES = ("$(>ran)", "`>ran`", "a\\n$(>ran)", "a\\n$(>ran) b", ";>ran", "two  words ", "it's \"x", "*", "~")


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PREFIX/share."""
    folder = tmp_path_factory.mktemp("share")
    completion.main(folder)
    return folder


def said(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=30)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(params=["bash", "fish"])
def complete(request: pytest.FixtureRequest, share: Path) -> Callable[[str], set[str]]:
    """What the shell offers for a line, without the words that explain it."""

    def in_bash(line: str) -> set[str]:
        words = line.split(" ")
        file = share / completion.FILES["bash"].format(words[0])
        return set(said(programs.path("bash"), "-c", BASH, "bash", file, *words).splitlines()) - {""}

    def in_fish(line: str) -> set[str]:
        file = share / completion.FILES["fish"].format(line.split(" ")[0])
        return {each.partition("\t")[0] for each in said(programs.path("fish"), "-N", "-c", FISH, file, line).splitlines()}

    return {"bash": in_bash, "fish": in_fish}[request.param]


def test_subcommands(complete: Callable[[str], set[str]]) -> None:
    assert complete("ssllatency ") == set(SUBCOMMANDS)
    assert complete("ssllatency tr") == {name for name in SUBCOMMANDS if name.startswith("tr")}


def test_every_option_of_every_subcommand(complete: Callable[[str], set[str]]) -> None:
    for name, parser in parsers().items():
        wanted = {word for action in parser._actions if action.help != "==SUPPRESS==" for word in action.option_strings}
        assert complete(f"ssllatency {name} --") == {word for word in wanted if word.startswith("--")}


def test_values(complete: Callable[[str], set[str]]) -> None:
    assert complete("ssllatency trace --engine ") == {"auto", "libbpf", "bcc", "bpftrace"}
    assert complete("ssllatency snoop --function SSL_rea") == {"SSL_read", "SSL_read_ex", "SSL_read_early_data"}


def test_processes_with_a_tls_library(complete: Callable[[str], set[str]]) -> None:
    """This one has: it imports ssl."""
    assert ssl.OPENSSL_VERSION
    name = Path("/proc/self/comm").read_text().strip()
    with subprocess.Popen(["sleep", "60"]) as bare:
        for command in ("ssllatency trace -p ", "ssllatency handshakes --pid ", "sslsnoop -p "):
            offered = complete(command)
            assert str(os.getpid()) in offered
            assert str(bare.pid) not in offered
        bare.kill()
    assert name in complete("ssllatency trace --comm ")


@pytest.fixture(params=ODD_NAMES)
def odd_name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This process under another name, in a folder that is empty and stays so."""
    assert ssl.OPENSSL_VERSION
    comm = Path("/proc/self/comm")
    before = comm.read_text()
    monkeypatch.chdir(tmp_path)
    comm.write_text(request.param)
    yield request.param
    comm.write_text(before)
    assert list(tmp_path.iterdir()) == []


def test_no_name_is_expanded(complete: Callable[[str], set[str]], odd_name: str) -> None:
    offered = complete("ssllatency trace -p ")
    assert str(os.getpid()) in offered
    assert all(word.isdecimal() for word in offered)
    assert odd_name not in complete("ssllatency trace --comm nothing-is-named-so")


@pytest.mark.parametrize("complete", ["bash"], indirect=True)
def test_bash_inserts_a_quoted_name(complete: Callable[[str], set[str]], odd_name: str) -> None:
    (quoted,) = (word for word in complete("ssllatency trace --comm ") if shlex.split(word) == [odd_name])
    assert said(programs.path("bash"), "-c", f"printf %s {quoted}") == odd_name
    assert complete(f"ssllatency trace --comm {quoted[:2]}") >= {quoted}


@pytest.mark.parametrize("complete", ["fish"], indirect=True)
def test_fish_is_given_the_name(complete: Callable[[str], set[str]], odd_name: str) -> None:
    assert odd_name in complete("ssllatency trace --comm ")


@pytest.mark.usefixtures("odd_name")
@pytest.mark.parametrize("odd_name", ["$(>ran)"], indirect=True)
def test_zsh_expands_no_name(share: Path) -> None:
    functions = (share / completion.FILES["zsh"].format("ssllatency")).parent
    for option, word in {"-p": str(os.getpid()), "--comm": "ran"}.items():
        screen = said(programs.path("zsh"), "-f", "-c", ZSH, "zsh", functions, f"ssllatency trace {option} ", word)
        assert ("$(>ran" if option == "--comm" else word) in screen.replace("\\", "")


def test_files(complete: Callable[[str], set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("before.json").write_text("")
    assert complete("ssllatency report b") == {"before.json"}
    assert complete("ssllatency probes --library bef") == {"before.json"}


@pytest.mark.parametrize(
    ("line", "word"),
    [("ssllatency ", "handshakes"), ("ssllatency trace --engine ", "bpftrace"), ("sslsnoop --fun", "--function")],
)
def test_zsh(share: Path, line: str, word: str) -> None:
    functions = (share / completion.FILES["zsh"].format("ssllatency")).parent
    assert word in said(programs.path("zsh"), "-f", "-c", ZSH, "zsh", functions, line, word)


def test_zsh_offers_processes(share: Path) -> None:
    functions = (share / completion.FILES["zsh"].format("ssllatency")).parent
    assert str(os.getpid()) in said(
        programs.path("zsh"), "-f", "-c", ZSH, "zsh", functions, "ssllatency trace -p ", str(os.getpid())
    )


def test_short_commands_are_those_of_tools() -> None:
    found = {file.name for file in TOOLS.glob("ssl*") if not file.suffix} - {"ssllatency"}
    assert found == set(short_commands())
    for short, name in short_commands().items():
        assert f'/ssllatency" {name} "$@"' in (TOOLS / short).read_text()
