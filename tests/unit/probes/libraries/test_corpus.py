# SPDX-License-Identifier: Apache-2.0
"""What is planned on real binaries is what is expected of them (corpus/); every expected plan keeps the rules that need no
binary; and the tables made from them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from tests import foreign
from tests.conftest import COMPARED
from tests.parameters import slow_except
from tests.unit.probes.corpus import comparison, manifest, places, rules, tables, text

BINARIES = manifest.load()
LINES = [line for line in (manifest.FOLDER / "sources.txt").read_text().splitlines() if not line.startswith("#")]
SOURCES = [line.partition(" sha256:")[0] for line in LINES]
OWN = list(places.of_machine())
FETCHED = list(places.of_setup())
SOME = 16 << 20  # bytes of build/corpus, which a machine may have: some seconds; `make corpus` compares all
SSL_3_0 = next(binary for binary in BINARIES if binary.plan.startswith("x86-64/bookworm/3.0.22") and "libssl" in binary.file)
PLANS = sorted({binary.plan for binary in BINARIES})


def shown(path: Path) -> str:
    return str(path.relative_to(foreign.TOP)) if path.is_relative_to(foreign.TOP) else str(path)


def compared(path: Path, record: pytest.FixtureRequest) -> list[str]:
    """How its plan differs. What it was compared with is counted at the end of the run."""
    result = comparison.compare(path, BINARIES)
    if result is None:
        return []
    record.node.user_properties.append((COMPARED, result.how))
    return [str(result)] if result.differences else []


@pytest.mark.parametrize("path", slow_except([*OWN, *FETCHED], *OWN), ids=shown)
def test_plan_is_the_expected_one(path: Path, request: pytest.FixtureRequest) -> None:
    if differences := compared(path, request):
        pytest.fail("\n".join((*differences, comparison.ADVICE)))


@pytest.mark.slow
def test_plans_of_java_archives_are_the_expected_ones(request: pytest.FixtureRequest) -> None:
    with places.of_archives() as paths:
        differences = [line for path in paths for line in compared(path, request)]
    if differences:
        pytest.fail("\n".join((*differences, comparison.ADVICE)))


@pytest.mark.slow
def test_plans_of_what_was_fetched_are_the_expected_ones(request: pytest.FixtureRequest) -> None:
    """The smallest of what is in build/corpus, if anything is."""
    differences = [line for path in places.some_of_corpus(SOME) for line in compared(path, request)]
    if differences:
        pytest.fail("\n".join((*differences, comparison.ADVICE)))


# What holds without the binaries.


@cache
def plan_of(name: str) -> text.Plan:
    return text.parse((manifest.PLANS / f"{name}.txt").read_text())


def test_every_expected_plan_keeps_the_rules() -> None:
    objections = [f"{name}: {objection}" for name in PLANS for objection in rules.objections(plan_of(name))]
    assert objections == []
    assert sum(len(list(plan_of(name).sites())) for name in PLANS) > 5000


def test_the_list_and_the_plans_belong_together() -> None:
    kept = {path.relative_to(manifest.PLANS).as_posix().removesuffix(".txt") for path in manifest.PLANS.rglob("*.txt")}
    assert kept == set(PLANS)
    assert len({binary.identity for binary in BINARIES}) == len(BINARIES)
    assert all(re.fullmatch(r"[0-9a-f]{16,64}|sha256:[0-9a-f]{64}", binary.identity) for binary in BINARIES)
    for binary in BINARIES:
        kind, *words = binary.origin.split()
        source = [kind, *words[:2], words[3]] if kind == "Debian" else [kind, *words]
        assert kind == "built" or " ".join(source) in SOURCES


@pytest.fixture(scope="module")
def tool() -> Any:
    """tools/corpus, as a module."""
    loader = SourceFileLoader("corpus_tool", str(foreign.TOP / "tools" / "corpus"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_every_source_is_of_a_kind_that_can_be_fetched(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool.read_sources() == SOURCES
    assert {line.split()[0] for line in SOURCES} == set(tool._FETCHERS)
    assert [line for line in LINES if line.startswith("wheel ") and not re.search(r" sha256:[0-9a-f]{64}$", line)] == []
    monkeypatch.setattr(tool, "_versions", lambda suite, package, _: [f"1:{suite}", f"2-{package}"])
    resolved = list(tool.resolved(SOURCES))
    assert len({tool.folder_of(origin) for origin in resolved}) == len(resolved) > len(SOURCES)
    assert "Debian sid libssl3t64 2-libssl3t64 amd64" in resolved
    assert all(tool.folder_of(origin).parent == tool.CORPUS for origin in resolved)


def test_what_cannot_be_had_is_named_and_stops_nothing(
    tool: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is kept without the address that this machine fetches from."""

    def refuse(words: list[str], _: Path) -> None:
        raise tool.NotFetched(f"no {words[0]} at https://archive.example/pool/{words[0]}")

    def give(_: list[str], downloads: Path) -> list[Path]:
        files = {"a.so": b"\x7fELF", "readme": b"text"}
        (downloads / "unpacked").mkdir()
        for name, content in files.items():
            (downloads / "unpacked" / name).write_bytes(content)
        return [downloads / "unpacked" / name for name in files]

    monkeypatch.setattr(tool, "CORPUS", tmp_path)
    monkeypatch.setattr(tool, "WORK", tmp_path / ".work")
    (tmp_path / ".work").mkdir()
    monkeypatch.setattr(tool, "_FETCHERS", {"npm": refuse, "wheel": give})
    assert not tool.fetch_all(["npm one 1", "wheel two 2 x86_64"])
    assert (tmp_path / "npm_one_1.missing").read_text() == "npm one 1: no one at one\n"
    assert {path.name for path in (tmp_path / "wheel_two_2_x86_64").iterdir()} == {"a.so", "origin"}
    assert "1 sources fetched, 0 were there, 1 could not be had" in capsys.readouterr().out


def test_no_text_names_a_host() -> None:
    for path in (manifest.BINARIES, manifest.FOLDER / "sources.txt", *manifest.PLANS.rglob("*.txt")):
        assert "//" not in path.read_text()


def broken(name: str, *changes: tuple[str, str]) -> list[str]:
    """What the rules say of an expected plan after changes, each of which must find its place."""
    said = (manifest.PLANS / f"{name}.txt").read_text()
    for before, after in changes:
        assert before in said
        said = said.replace(before, after, 1)
    return rules.objections(text.parse(said))


X86 = SSL_3_0.plan
ARM = X86.replace("x86-64", "aarch64")
READ, ENTRY, EXIT = SSL_3_0.expected[SSL_3_0.expected.index("SSL_read, ") :].splitlines()[:3]
DEPTH = re.compile(r"\d+ below")
SPOILED = {
    "a plan": (X86, [], ""),
    "outside of its function": (X86, [(READ, re.sub("0x[0-9a-f]+", "0x15", READ))], "it lies outside of the function"),
    "no instruction": (X86, [(ENTRY, f"{ENTRY}, no instruction begins here")], "no instruction begins here"),
    "not said to be stepped": (
        X86,
        [("ret | single-stepped | value", "ret | value")],
        "emulated, though the kernel single-steps",
    ),
    "another length": (X86, [(ENTRY, re.sub(r":\d+", ":7", ENTRY))], "emulated, though the kernel single-steps"),
    "no exit": (X86, [(f"{EXIT}\n", "")], "SSL_read: no exit"),
    "a value that isn't known": (X86, [(EXIT, EXIT.replace("value in rax, ", ""))], "its value isn't known"),
    "no such register": (X86, [(EXIT, EXIT.replace("rax", "eax"))], "no register is called eax"),
    "no entry": (X86, [(ENTRY, ENTRY.replace("entry", "exit"))], "it begins with exit"),
    "an odd depth": (X86, [(EXIT, DEPTH.sub("28 below", EXIT))], "the stack can't be 28 below"),
    "two at one place": (X86, [(EXIT, f"{EXIT}\n{EXIT}")], "two sites overlap"),
    "neither planned nor missing": (X86, [("  SSL_write_ex2: not in this library\n", "")], "neither planned nor missing"),
    "a reason that is none": (X86, [("SSL_write_ex2: not in this library", "SSL_write_ex2: ")], "no reason: SSL_write_ex2"),
    "of no library": (X86, [("SSL_write_ex2: not", "SSL_other: not")], "not of the catalogue: SSL_other"),
    "a phase that is none": (X86, [("private_key EVP", "public_key EVP")], "what it is isn't known"),
    "a phase without an end": (X86, [("\n  end", "\n  exit")], "no begin, or no end"),
    "a field across two": (X86, [("offsets: rwstate 40", "offsets: rwstate 42")], "offset rwstate isn't aligned"),
    "a label that isn't aligned": (X86, [("label version: 0, 4 bytes", "label version: 2, 4 bytes")], "label version isn't"),
    "within a word": (ARM, [("+0x4:4", "+0x5:4")], "not an instruction's place"),
    "a depth of half a frame": (ARM, [(" 80 below", " 24 below")], "the stack can't be 24 below"),
    "not emulated on aarch64": (ARM, [(":4 ret |", ":4 retaa |")], "emulated, though the kernel single-steps"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_what_the_rules_see(spoiled: str) -> None:
    name, changes, said = SPOILED[spoiled]
    objections = broken(name, *changes)
    assert any(said in objection for objection in objections) if said else not objections


def test_a_return_probe_is_refused_where_an_async_job_may_run() -> None:
    name = X86.replace("libssl", "libcrypto")
    plan = text.parse((manifest.PLANS / f"{name}.txt").read_text())
    signing = plan.operations["RSA_sign"]
    signing.sites = [replace(signing.sites[0], role="return")]
    assert any("ASYNC" in objection for objection in rules.objections(plan))


# The comparison itself.


def test_a_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(text.MalformedError):
        text.parse("x86-64 libssl\n\nSSL_read, 0x95 bytes, dynamic symbol: 1000 ns\n  entry at the start\n")


@pytest.mark.parametrize(
    ("before", "after", "seen_in_full", "seen_otherwise"),
    [
        ("", "", False, False),
        (EXIT, EXIT.replace("rax", "rbx"), True, False),
        ("rwstate 40", "rwstate 48", True, False),
        ("SSL_sendfile, ", "SSL_write_ex2, ", True, True),
        ("SSL_write_ex2: not in", "SSL_write_ex2: no longer in", True, True),
        ("label version:", "label max:", True, True),
        ("private_key EVP_PKEY_decrypt", "private_key EVP_PKEY_sign", True, True),
    ],
)
def test_what_a_comparison_sees(before: str, after: str, seen_in_full: bool, seen_otherwise: bool) -> None:
    now = SSL_3_0.expected.replace(before, after)
    assert before in SSL_3_0.expected
    assert bool(list(comparison.differences(SSL_3_0.expected, now, "x"))) == seen_in_full
    assert bool(comparison.of_another_build(SSL_3_0.expected, now)) == seen_otherwise


def test_a_file_is_compared_in_full_only_by_its_own_build_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build is held against the newest of the same series and machine."""
    monkeypatch.setattr(text, "describe", lambda _: SSL_3_0.expected)
    monkeypatch.setattr(manifest, "version", lambda _: "OpenSSL 3.0.99 1 Jan 2030")
    monkeypatch.setattr(manifest, "identity", lambda _: SSL_3_0.identity)
    same = comparison.compare(Path("libssl.so.3"), BINARIES)
    assert same is not None
    assert (same.against, same.exact, same.differences) == (SSL_3_0, True, ())
    monkeypatch.setattr(manifest, "identity", lambda _: "0" * 40)
    other = comparison.compare(Path("libssl.so.3"), BINARIES)
    assert other is not None
    assert (other.against, other.exact, other.differences) == (SSL_3_0, False, ())
    monkeypatch.setattr(manifest, "version", lambda _: "OpenSSL 9.9.0 1 Jan 2030")
    unlike = comparison.compare(Path("libssl.so.3"), BINARIES)
    assert unlike is not None
    assert (unlike.against, unlike.differences) == (None, ())


def test_binaries_with_the_same_plan_share_it() -> None:
    described = [manifest.Described(binary, binary.expected) for binary in reversed(BINARIES)]
    binaries, texts = manifest.arranged(described)
    assert binaries == BINARIES
    assert set(texts) == set(PLANS)
    assert len(set(texts.values())) == len(texts) < len(BINARIES)


# The tables of probe-sites.md.

COLUMNS = tables.chosen(BINARIES)


def test_tables_of_the_page_are_those_of_the_corpus() -> None:
    page = tables.PAGE.read_text()
    if page != tables.with_tables(page, COLUMNS):
        pytest.fail(f"the tables of {tables.PAGE.name} are not those of the corpus. {comparison.ADVICE}")


def test_tables_need_their_place_on_the_page() -> None:
    with pytest.raises(ValueError, match=r"lacks the lines"):
        tables.with_tables("# Probe sites\n", COLUMNS)


def test_tables_hold_every_operation() -> None:
    shown_there = tables.tables(COLUMNS)
    assert {"libssl", "libcrypto", "libcrypto_mb", "libgnutls", "qatengine", "node"} == {column.library for column in COLUMNS}
    for column in COLUMNS:
        assert all(f"`{name}`" in shown_there for name in (*column.plan.operations, *column.plan.missing))


def _sites(library: str, series: str, operation: str) -> list[str]:
    for column in COLUMNS:
        if (column.library, column.series, column.plan.machine) == (library, series, "x86-64"):
            sites = column.plan.operations[operation].sites
            return [f"{site.role} {site.mnemonic} {', '.join((site.cost, *site.notes))}" for site in sites]
    raise LookupError(library)


def test_worked_examples_show_the_sites_of_the_corpus() -> None:
    """Of ecx_derive the one that most calls leave by; of SSL_read all."""
    found = re.findall(r"^    [0-9a-f]+: (\w+) .*  (entry|exit), (.*)$", tables.PAGE.read_text(), re.MULTILINE)
    derive, *read = [f"{role} {mnemonic} {rest}" for mnemonic, role, rest in found]
    assert derive in _sites("libcrypto", "3.0", "ecx_derive")
    assert read == [*_sites("libssl", "3.0", "SSL_read"), *_sites("libssl", "3.5", "SSL_read")]
