# SPDX-License-Identifier: Apache-2.0
"""The command line without a kernel: misuse and bad input give one sentence and the right exit status."""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ssllatency import abi
from ssllatency.cli import command_line
from ssllatency.cli.command_line import SUBCOMMANDS, build_parser, run
from ssllatency.cli.host import doctor
from ssllatency.cli.live import export, load, trace
from ssllatency.engines.doctor import this_host
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.export.split.speaker import Address
from ssllatency.targets import Selection
from ssllatency.tracing.handshake_sources import request_for

PACKAGE = Path(abi.__file__).parent
LIBSSL = Path("/usr/lib/x86_64-linux-gnu/libssl.so.3")


def test_the_command_takes_no_module_from_the_folder_it_is_run_in(tmp_path: Path) -> None:
    """Root runs it in folders where others may write."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('a module of this folder')\n")
    program = Path(__file__).resolve().parents[3] / "tools" / "ssllatency"
    done = subprocess.run([program, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ssllatency ")


def set_traps(folder: Path) -> None:
    """Modules that Python would take for its own, for the command's, or for what it needs."""
    for name in ("argparse", "runpy", "capstone", "elftools", "ssllatency", "sitecustomize"):
        (folder / f"{name}.py").write_text("raise SystemExit('a module of this folder')\n")


def test_the_documented_interpreter_takes_no_module_from_the_folder_it_is_run_in(tmp_path: Path) -> None:
    """An interpreter with capabilities of its own, for which docs/use/privileges.md has the command."""
    set_traps(tmp_path)
    text = (Path(__file__).resolve().parents[3] / "docs/use/privileges.md").read_text()
    (options,) = re.findall(r"^ +bin/python (.*)-m ssllatency ", text, re.MULTILINE)
    code = [sys.executable, *options.split(), "-m", "ssllatency", "--version"]
    done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "a module of this folder" not in done.stderr  # where ssllatency isn't installed it isn't found, and nothing else is


def test_run_as_a_module_it_takes_none_from_the_folder_once_it_runs(tmp_path: Path) -> None:
    (tmp_path / "capstone.py").write_text("raise SystemExit('a module of this folder')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "ssllatency", "probes", "--no-cache", str(LIBSSL)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHOME"])
def test_the_launchers_keep_no_variable_of_pythons(tmp_path: Path, name: str) -> None:
    """sudo -E, or a rule of sudo's, may hand them to root."""
    set_traps(tmp_path)
    for program in ("tools/ssllatency", "tools/ssltrace"):
        command = [Path(__file__).resolve().parents[3] / program, "--help"]
        done = subprocess.run(command, env=os.environ | {name: str(tmp_path)}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("sudo_uid", "taken"), [("1000", False), ("0", True), (None, True)])
def test_under_sudo_programs_are_not_looked_up_on_the_users_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudo_uid: str | None, taken: bool
) -> None:
    (tmp_path / "bpftrace").write_text("#!/bin/sh\n")
    (tmp_path / "bpftrace").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("SUDO_UID", raising=False)
    if sudo_uid is not None:
        monkeypatch.setenv("SUDO_UID", sudo_uid)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found: list[str | None] = []
    monkeypatch.setattr(doctor, "run", lambda _: found.append(shutil.which("bpftrace")) or 0)
    assert run(["doctor"]) == 0
    assert (found == [str(tmp_path / "bpftrace")]) == taken


# What a live command brings in only once other processes read the files that it will trace, or once the probes are attached.
LATER = (
    *("ssllatency.engines.sessions", "ssllatency.engines.follow", "ssllatency.engines.budget", "ssllatency.engines.read"),
    *("ssllatency.engines.attach.links", "ssllatency.engines.hit_cost", "ssllatency.tracing.follow", "ssllatency.tracing.late"),
    *("ssllatency.model.sampling", "ssllatency.reports.documents", "ssllatency.reports.html", "ssllatency.reports.text"),
)
# What it brings in once the probes are attached, or where other things than handshakes are asked for.
LATER_STILL = (
    *("ssllatency.reports.documents", "ssllatency.reports.html", "ssllatency.reports.text", "ssllatency.model.statistics"),
    *("ssllatency.engines.sessions.full", "ssllatency.engines.sessions.trace", "ssllatency.engines.sessions.snoop"),
    *("ssllatency.engines.hit_cost", "ssllatency.tracing.hit_costs", "secrets"),
)
# What reads a file, which no process does that lasts; and modules of Python's that take long to bring in.
NEVER = ("bcc", "capstone", "elftools", "ssllatency.elf.image", "ssllatency.code.flow")
SLOW = (
    "statistics",
    "fractions",
    "decimal",
    "difflib",
    "lzma",
    "shutil",
    "subprocess",
    "tempfile",
    "concurrent.futures",
    "asyncio",
    "logging",
    "unittest",
)


@pytest.mark.parametrize(("command", "others"), [("trace", ["ssllatency.model.handshakes"]), ("handshakes", [])])
def test_a_subcommand_brings_in_no_more_than_it_begins_with(command: str, others: list[str]) -> None:
    """Each start would take longer by all that is brought in before files are read."""
    others = [*others, *(f"ssllatency.cli.{name}" for name in ("live.snoop", "kept.diff", "live.load"))]
    code = (
        "import sys; from ssllatency.cli.command_line import build_parser\n"
        f"build_parser({command!r}).parse_args([{command!r}, '-p', '1'])\n"
        f"unwanted = {(*LATER, *NEVER, *SLOW, *others)!r}\n"
        "print(*(name for name in sys.modules if any(name == other or name.startswith(f'{other}.') for other in unwanted)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == []


def test_what_the_probes_are_attached_with_is_all_that_is_brought_in_until_they_are() -> None:
    """While files are planned: reports, and what other commands attach, come later or never."""
    code = (
        "import sys, ssllatency.cli.live.handshakes, ssllatency.tracing.follow, ssllatency.tracing.handshake_sources\n"
        f"unwanted = {(*LATER_STILL, *NEVER, *SLOW)!r}\n"
        "print(*(name for name in sys.modules if any(name == other or name.startswith(f'{other}.') for other in unwanted)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == []


def test_hardly_anything_is_brought_in_before_the_fork_server_is_started() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
before = {{*sys.modules}}
from ssllatency.cli.main import main
from ssllatency.tracing.planning import fork_server
def running(wanted):
    print(*sys.modules.keys() - before)
    sys.exit()
fork_server.running = running
main()
"""
    command = [sys.executable, "-I", "-c", code, "trace"]
    brought_in = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "ssllatency.tracing.planning.fork_server" in brought_in
    assert brought_in.isdisjoint(("argparse", "ctypes", "dataclasses", "json", "pathlib", "re", "typing"))


@pytest.mark.parametrize("name", ["handshakes", "record", "watch", "load", "top", "export"])
def test_help_says_what_rows_take_of_the_kernels_memory(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run([name, "--help"]) == 0
    kib = round(ctypes.sizeof(abi.HandshakeRow) / 1024)
    assert f"{kib} KiB of kernel memory each" in " ".join(capsys.readouterr().out.split())


def test_what_is_brought_in_later_is_there() -> None:
    """Else nothing would be held by the test above once one of them is renamed."""
    assert [name for name in (*LATER, *LATER_STILL, *NEVER[3:], *SLOW) if importlib.util.find_spec(name) is None] == []


def test_the_collector_rests_while_modules_are_brought_in(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(command_line, "module_of", lambda _: seen.append(gc.isenabled()) or doctor)
    monkeypatch.setattr(doctor, "run", lambda _: seen.append(gc.isenabled()) or 0)
    assert run(["doctor"]) == 0
    assert seen == [False, True]
    assert run(["doctor", "--nope"]) == 2
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nope"], 2, "invalid choice: 'nope'"),
        (["trace", "-p", "0"], 2, "0 isn't a PID"),
        (["trace", "-p", "12x"], 2, "12x isn't a PID"),
        (["trace", "-p", "1,nginx"], 2, "nginx isn't a PID: --comm nginx names processes"),
        (["trace", "-p", " \n"], 2, "it is empty: most likely there is no PID file"),
        (["trace", "-p"], 2, "has none: most likely there is no PID file"),
        (["trace", "-p", "-d", "5"], 2, "has none: most likely there is no PID file"),
        (["trace", "-p", "12", "nginx"], 2, "unrecognized arguments: nginx"),
        (["trace", "--comm", ""], 2, "--comm: it is empty"),
        (["trace", "--cgroup", ""], 2, "--cgroup: it is empty"),
        (["trace", "--container", " "], 2, "--container: it is empty"),
        (["trace", "--library="], 2, "--library: it is empty"),
        (["trace", "--pod", ""], 2, "--pod: it is empty"),
        (["trace", "--unit", ""], 2, "--unit: it is empty"),
        (["trace", "--unit", "a/b"], 2, "a/b isn't a unit's name"),
        (["trace", "--unit", "nginx", "--cgroup", "/x"], 2, "--unit names a cgroup as --cgroup does"),
        (["trace", "--port", "https"], 2, "https isn't a port (1 to 65535)"),
        (["trace", "--port", "443,65536"], 2, "65536 isn't a port"),
        (["-p", "12", "--comm", "a b"], 2, "name a subcommand first, as in `ssllatency handshakes -p 12 --comm 'a b'`"),
        (["help", "trac"], 2, "did you mean trace?"),
        (["trace", "-p", "1", "-d", "5m5m"], 2, "nor a time like 500ms, 10s, 5m or 1h"),
        (["handshakes", "-p", "1", "--over", "50"], 2, "50 isn't a duration like 200us"),
        (["handshake"], 2, "did you mean handshakes?"),
        (["trace", "-p", "1", "--durration", "3"], 2, "did you mean --duration?"),
        (["trace", "-p", "1", "--attach=muti"], 2, "did you mean multi?"),
        (["trace", "-p", "1", "-d", "5 minutes"], 2, "nor a time like 500ms, 10s, 5m or 1h"),
        (["trace", "-p", "1", "-d", "-3"], 2, "isn't a number of seconds above 0"),
        (["trace", "-p", "1", "-d", "nan"], 2, "isn't a number of seconds above 0"),
        (["trace", "-p", "1", "-i", "0"], 2, "isn't a number of seconds above 0"),
        (["trace", "-p", "1", "--hist", "0:1000"], 2, "isn't MIN:MAX:STEP"),
        (["trace", "-p", "1", "--hist", "0:1000:0"], 2, "isn't MIN:MAX:STEP"),
        (["trace", "-p", "1", "--hist", "0:1000:1"], 2, "at most 64 steps"),
        (["trace", "-p", "1", "--hist", "0:1000:300"], 2, "steps of 300 from 0 end at 1200, not at 1000 (take 0:1200:300)"),
        (["trace", "-p", "1", "--max-processes", "0"], 2, "isn't a whole number"),
        (["trace", "-p", "1", "--role", "both"], 2, "--role: invalid choice: 'both'"),
        (["snoop", "-p", "1", "--outcome", "succes"], 2, "--outcome: invalid choice: 'succes' (choose from 'success', "),
        (
            ["snoop", "-p", "1", "--outcome", "abandoned"],
            2,
            "--outcome abandoned: calls don't end that way; choose one of success, ",
        ),
        (["snoop", "-p", "1", "--handshakes", "--outcome", "retry"], 2, "choose one of success, failure, abandoned."),
        (["snoop", "-p", "1", "--handshakes", "--function", "SSL_read"], 2, "--function chooses among calls, and --handshakes"),
        (["trace", "-p", "1", "--role", "serve"], 2, "did you mean server?"),
        (["probes"], 2, "name either files or targets"),
        (["probes", "x", "-p", "1"], 2, "name either files or targets"),
        (["probes", "no/such/file"], 1, "there is no file no/such/file"),
        (["probes", __file__], 1, "not an ELF file"),
        (["probes", "--handshakes"], 2, "name either files or targets"),
        (["probes", "--handshakes", "no/such/file"], 1, "there is no file no/such/file"),
        (["probes", "--handshakes", "--no-cache", "/bin/ls"], 1, "neither libssl nor libcrypto"),
        (["script"], 2, "name either files or targets"),
        (["script", "x", "-p", "1"], 2, "name either files or targets"),
        (["script", "no/such/file"], 1, "there is no file"),
        (["script", "/proc/self/fd/no"], 1, "there is no file"),
        (["script", __file__], 1, "not an ELF file"),
        (["script", "--hist", "5:1:1", "x"], 2, "isn't MIN:MAX:STEP"),
        (["script", "--hist", "5:10:2", "x"], 2, "take 5:11:2"),
        (["script", "/usr/lib/x86_64-linux-gnu/libssl.so.3", "-o", "no/such/folder/x"], 1, "can't be written"),
        (["report", "no/such/file"], 1, "can't be read"),
        (["report", __file__], 1, "not a measurement"),
    ],
)
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, words: str) -> None:
    assert run(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ssllatency: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith(".\n")
    assert words in printed.err


@pytest.mark.parametrize("length", [0, 3, 64, 900, 5000, 120000])
def test_a_file_cut_short_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path, length: int) -> None:
    cut = tmp_path / "libssl.so.3"
    cut.write_bytes(LIBSSL.read_bytes()[:length])
    assert run(["probes", "--no-cache", str(cut)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run([name, "--help"]) == 0
    statuses = "exit status: 0 success, 1 failure, 2 usage error, 130 interrupted before anything was measured"
    assert statuses in " ".join(capsys.readouterr().out.split())


def test_the_listing_of_a_file_needs_no_root(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probes", str(LIBSSL), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "SSL_do_handshake" in json.dumps(document)


def test_the_sites_of_a_handshakes_phases_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probes", "--handshakes", str(LIBSSL), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "EVP_DigestSign" in [call["callee"] for call in document["files"][0]["calls"]]
    assert run(["probes", "--handshakes", str(LIBSSL)]) == 0
    assert "EVP_DigestSign" in capsys.readouterr().out


@pytest.mark.parametrize("error", [ValueError("an odd\nvalue\x1b[2J"), OSError(22, "Invalid argument"), AssertionError()])
def test_what_nobody_foresaw_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(doctor, "run", fail)
    assert run(["doctor"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"ssllatency failed: {type(error).__name__}")
    assert "; this is a defect, please report it" in said
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
    monkeypatch.setenv("SSLLATENCY_TRACEBACK", "1")
    with pytest.raises(type(error)):
        run(["doctor"])


@pytest.mark.parametrize(
    ("error", "lack"),
    [
        (OSError(24, "Too many open files"), "Too many open files"),
        (PermissionError(1, "Operation not permitted"), "Operation not permitted"),
        (MemoryError(), "Cannot allocate memory"),
        (RuntimeError("can't start new thread"), "no further thread"),
    ],
)
def test_what_the_machine_lacks_is_no_defect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, lack: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(doctor, "run", fail)
    assert run(["doctor"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"ssllatency: the system refused what it needs ({lack})")
    assert said.count("\n") == 1
    assert "defect" not in said


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_interruption_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrapped: bool
) -> None:
    """Also where Python itself has made another error of it, as of one that comes while an enumeration is being made."""

    def interrupted(_: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            if wrapped:
                raise RuntimeError("Error calling __set_name__ on '_proto_member' instance") from error
            raise

    monkeypatch.setattr(doctor, "run", interrupted)
    assert run(["doctor"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_is_no_error_to_see() -> None:
    environment = os.environ | {"PYTHONPATH": "python"}
    command = f"{sys.executable} -m ssllatency probes {LIBSSL} | head -n 1"
    top = Path(__file__).resolve().parents[3]
    done = subprocess.run(["bash", "-c", command], cwd=top, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_link_that_names_another_file_is_not_followed_by_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As one below /proc does where the file is gone, or in a mount namespace of another."""
    libssl = Path("/usr/lib/x86_64-linux-gnu/libssl.so.3")
    copy, decoy = tmp_path / "libssl.so.3", tmp_path / "libssl.so.3 (deleted)"
    copy.write_bytes(libssl.read_bytes())
    with copy.open() as opened:
        copy.unlink()
        decoy.write_bytes(libssl.read_bytes())
        name = f"/proc/{os.getpid()}/fd/{opened.fileno()}"
        assert run(["script", name]) == 0
        assert f"uprobe:{name}:" in capsys.readouterr().out


def test_a_link_that_is_no_other_file_is_followed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    link, libssl = tmp_path / "link", Path("/usr/lib/x86_64-linux-gnu/libssl.so.3").resolve()
    link.symlink_to(libssl)
    assert run(["script", str(link)]) == 0
    assert f"uprobe:{libssl}:" in capsys.readouterr().out


def test_a_name_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = tmp_path / "lib\x1b]0;owned\x07ssl.so.3"
    evil.write_bytes(LIBSSL.read_bytes())
    assert run(["probes", "--no-cache", str(evil)]) == 0
    assert run(["probes", str(evil) + "\x1b[2J"]) == 1
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "\\x1b" in printed.out


@pytest.mark.parametrize(
    ("words", "pids"),
    [
        (["-p", "12"], [12]),
        (["-p", "12,13"], [12, 13]),
        (["-p", "12\n13 14\n", "--pid", "15"], [12, 13, 14, 15]),
        (["-p", "12", "13", "-d", "5"], [12, 13]),
        (["-d", "5", "--pid", "12,13", "14", "-p", "15", "16"], [12, 13, 14, 15, 16]),
    ],
)
def test_several_pids(monkeypatch: pytest.MonkeyPatch, words: list[str], pids: list[int]) -> None:
    """As commas, as pgrep prints them, as words, and as several options."""
    named: list[int] = []
    monkeypatch.setattr(trace, "run", lambda arguments: named.extend(arguments.pid) or 0)
    assert run(["trace", *words]) == 0
    assert named == pids


def test_words_of_other_programs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    monkeypatch.setattr(load, "run", lambda arguments: words.extend(arguments.arguments) or 0)
    assert run(["load", "-p", "12", "ab", "-p", "1", "2"]) == 0
    assert words == ["-p", "1", "2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10", 10), ("0.5", 0.5), (".5", 0.5), ("10s", 10), ("500ms", 0.5), ("5m", 300), ("1m30s", 90)],
)
def test_times_have_units(text: str, expected: float) -> None:
    assert build_parser("trace").parse_args(["trace", "-p", "1", "-d", text]).duration == expected


def test_help_and_version_as_people_type_them(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help"], ["help", "trace"], ["-V"]):
        assert run(words) == 0
    printed = capsys.readouterr().out
    assert "usage: ssllatency [-h]" in printed
    assert "usage: ssllatency trace [-h]" in printed
    assert printed.splitlines()[-1].startswith("ssllatency ")


def subparsers() -> Mapping[str, Any]:
    return next(action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)).choices


@pytest.mark.parametrize("name", ["handshakes", "record", "watch", "top", "export"])
def test_a_command_that_measures_handshakes_has_all_that_is_asked_of_its_options(name: str) -> None:
    words = {"record": ["-o", "x.jsonl"], "watch": ["--when", "handshake p99 > 1ms"]}.get(name, [])
    arguments = build_parser(name).parse_args([name, "-p", "1", *words])
    resolved: Any = SimpleNamespace(
        images=(),
        targets=(),
        everyone=False,
        following=None,
        selection=Selection(pids=(1,)),
        source=None,
        before=None,
        spared={},
        linking=None,
    )
    assert isinstance(request_for(resolved, arguments), HandshakeRequest)


def test_examples_in_help_are_commands_that_parse() -> None:
    whole = build_parser()
    for name, parser in {"": whole, **subparsers()}.items():
        assert parser.examples, name
        for command, purpose in parser.examples:
            words = shlex.split(command.replace('"$(cat /run/nginx.pid)"', "812"))
            assert words[0] == "ssllatency"
            assert name in ("", words[1])
            assert whole.parse_args(words[1:])
            assert f"\n  {command}\n      {purpose}\n" in parser.format_help()
            assert max(len(command) + 2, len(purpose) + 6) <= 80, command


def test_expert_options_come_last() -> None:
    for name in ("trace", "handshakes", "record", "load", "snoop"):
        text = subparsers()[name].format_help()
        assert (
            text.index("targets (any") < text.index("attaching:") < text.index("expert options:") < text.index("--no-cache  ")
        )


def test_alone_it_lists_once_wherever_its_output_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    printed = capsys.readouterr()
    assert "Next:" in printed.out
    assert printed.err == ""  # nobody's handshakes are counted, for which it would be traced


def test_advice_has_the_command_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLLATENCY_PROGRAM", "tools/ssllatency")
    monkeypatch.setattr("sys.argv", ["-c", "handshakes", "--comm", "a b"])
    assert this_host().command == "tools/ssllatency handshakes --comm 'a b'"
    monkeypatch.setenv("SSLLATENCY_PROGRAM", "/usr/bin/ssllatency")  # as a script that the PATH led to is told
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin")
    assert this_host().command == "ssllatency handshakes --comm 'a b'"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("8080", "127.0.0.1", 8080), (":8080", "", 8080), ("0.0.0.0:8080", "0.0.0.0", 8080), ("[::1]:8080", "::1", 8080)],
)
def test_a_port_alone_is_loopbacks(text: str, host: str, port: int) -> None:
    assert export.listen_address(text) == Address(host, port)
