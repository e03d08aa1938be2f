# SPDX-License-Identifier: Apache-2.0
"""Which tiers are run and left out, and when that is a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import run, slow
from tests.kernels import machine

TIERS = ["unit", "bpf", "live"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What programs that run.py starts get; it is not that of this process."""
    copied = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    monkeypatch.setattr(run.os, "environ", copied)
    return copied


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tiers that were run; all pass."""
    tiers: list[str] = []
    monkeypatch.setattr(run, "run_tier", lambda tier, _options: tiers.append(tier) is None)

    class Fuzzing:
        def __init__(self) -> None:
            tiers.append("fuzz")

        def passed(self) -> bool:
            tiers.append("fuzz over")
            return True

    monkeypatch.setattr(run, "Fuzzing", Fuzzing)
    monkeypatch.setattr(sys, "argv", ["run.py", *TIERS])
    for name in ("CI", "SSLLATENCY_MAY_LEAVE_OUT"):
        monkeypatch.delenv(name, raising=False)
    return tiers


def doctor(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    program = folder / "doctor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(run, "DOCTOR", (program,))


def test_all_tiers_run_where_the_machine_can_trace(ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    doctor(monkeypatch, tmp_path, "exit 0")
    assert run.main() == 0
    assert ran == TIERS


@pytest.mark.parametrize("words", [TIERS, ["quick"]], ids=" ".join)
def test_what_python_compiles_is_kept(
    pytests: list[list[str]], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    run.main()
    assert pytests
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PYTHONPYCACHEPREFIX"] == str(run.BYTECODE)


@pytest.mark.parametrize(("ci", "may", "status"), [("", "", 0), ("true", "", 1), ("true", "bpf", 1), ("true", "bpf live", 0)])
def test_what_a_machine_can_not_trace_may_be_left_out(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, may: str, status: int
) -> None:
    """In CI only where that is expressly allowed."""
    doctor(monkeypatch, tmp_path, 'echo "This machine can\'t trace: no BTF."; exit 1')
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("SSLLATENCY_MAY_LEAVE_OUT", may)
    assert run.main() == status
    assert ran == ["unit"]


@pytest.mark.parametrize("script", ["echo Traceback >&2; exit 1", "exit 1", "echo no; exit 2", "kill -SEGV $$"])
def test_a_doctor_that_fails_says_nothing_of_the_machine(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    doctor(monkeypatch, tmp_path, script)
    with pytest.raises(RuntimeError, match="the doctor failed with status"):
        run.main()
    assert ran == []


def test_a_doctor_that_hangs_ends(ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    doctor(monkeypatch, tmp_path, "exec sleep 60")
    monkeypatch.setattr(run, "DOCTOR_TIMEOUT_S", 0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        run.main()
    assert ran == []


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_fuzzing_is_left_out_only_where_it_can_not_be_done(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, ci: str, status: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "unit", "fuzz"])
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(run, "no_fuzzer", lambda: "")
    assert run.main() == 0
    monkeypatch.setattr(run, "no_fuzzer", lambda: "atheris isn't installed")
    assert run.main() == status
    assert ran == ["unit", "fuzz", "fuzz over", "unit"]


@pytest.mark.parametrize(
    ("processors", "order"),
    [(2, "unit fuzz deploy bpf over live kernels"), (1, "unit fuzz over deploy bpf live kernels")],
)
def test_tiers_that_use_one_processor_run_beside_fuzzing(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, processors: int, order: str
) -> None:
    monkeypatch.setattr(run, "processors", lambda: processors)
    assert run.run_tiers(["unit", "fuzz", "deploy", "bpf", "live", "kernels"], []) == []
    assert " ".join(ran).replace("fuzz over", "over") == order


@pytest.mark.parametrize(("script", "failed"), [("print('held')", []), ("print('held'); exit(1)", ["fuzz"])])
def test_what_fuzzing_said_is_shown_once_it_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, failed: list[str]
) -> None:
    monkeypatch.setattr(run, "FUZZING", ("-c", script))
    monkeypatch.setattr(run, "FUZZING_LOG", tmp_path / "folder/log")
    assert run.run_tiers(["fuzz"], []) == failed
    assert capsys.readouterr().out == "==> tests/fuzz\nheld\n"


@pytest.fixture
def pytests(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words of each pytest that was run; none finds a test."""
    words: list[list[str]] = []

    def ran(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "pytest" in command:
            words.append(command[command.index("pytest") + 1 :])
        return subprocess.CompletedProcess(command, run.NONE_CHOSEN if "pytest" in command else 0, "", "")

    monkeypatch.setattr(run.subprocess, "run", ran)
    return words


def test_other_options_are_pytests(pytests: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "unit", "bpf", "live", "-k", "reload and not slow", "--lf"])
    assert run.main() == 0
    options = ["--lf", "-k", "reload and not slow"]
    assert pytests == [
        ["tests/unit", *run.PARALLEL, *options],
        ["tests/bpf", *run.SIDE_BY_SIDE["bpf"], *options],
        ["tests/live", *run.ALONE, *options],
    ]


def test_quick_leaves_out_what_lint_has_run() -> None:
    (rules,) = re.findall(r"^RULES := .*tests/unit/,(.*)\)$", (run.TOP / "Makefile").read_text(), re.MULTILINE)
    assert tuple(rules.split()) == run.RULES


def test_no_test_at_all_is_a_failure_unless_some_were_chosen(pytests: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "unit"])
    assert run.main() == 1
    assert pytests == [["tests/unit", *run.PARALLEL]]


def test_the_quick_ones(pytests: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "quick"])
    assert run.main() == 1
    assert [words[:3] for words in pytests] == [["tests/unit", "-m", "not slow"], ["tests/live", "-m", "smoke and not slow"]]


def test_a_tier_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "units"])
    with pytest.raises(SystemExit) as ended:
        run.main()
    assert ended.value.code == 2


DURATIONS = """
============================= slowest durations ==============================
4.00s call     tests/unit/code/test_walk.py::test_all[libssl.so.3]
2.50s call     tests/unit/code/test_walk.py::test_all[libcrypto.so.3]
0.50s setup    tests/unit/code/test_walk.py::test_all[libcrypto.so.3]
3.00s setup    tests/unit/elf/test_image.py::test_it
0.50s call     tests/unit/elf/test_image.py::test_another
"""


@pytest.mark.parametrize(("quick_s", "chosen"), [(0.4, 3), (0.5, 2), (3.4, 2), (3.5, 1), (10.4, 1), (10.5, 0)])
def test_as_few_are_left_out_of_the_inner_loop_as_make_it_quick(quick_s: float, chosen: int) -> None:
    dearest_first = [
        "tests/unit/code/test_walk.py::test_all",
        "tests/unit/elf/test_image.py::test_it",
        "tests/unit/elf/test_image.py::test_another",
    ]
    assert slow.choose(DURATIONS, quick_s) == sorted(dearest_first[:chosen])


def test_each_that_is_left_out_is_there() -> None:
    for test in slow.listed():
        file, name = test.split("::")
        assert f"def {name}(" in (run.TOP / file).read_text(), test


def test_guests_of_another_architecture_need_kernels_of_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "why_not", lambda architecture: f"asked for {architecture}")
    run.os.environ.update(SSLLATENCY_GUEST="arm64", SSLLATENCY_KERNELS="6.12")
    assert "haven't been fetched" in run.no_guests()
    kernel = tmp_path / "arm64" / "6.12" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text('{"release": "6.12.0-arm64"}')
    assert run.no_guests() == "asked for arm64"
