# SPDX-License-Identifier: Apache-2.0
"""docs/schema describes every document and line of JSON that the program writes, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests import schema
from tests.measured.recordings import recording_of
from tests.unit.reports import handshake_samples, report_samples
from tests.unit.reports.test_client import snapshot
from tests.unit.reports.test_cost_report import COST
from tests.unit.reports.test_sampling_report import SAMPLED

from ssllatency.cli.command_line import run
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.compare import compare
from ssllatency.reports.documents import diff, recording
from ssllatency.reports.documents.document import single_to_json, to_document

RECORDED = schema.FILE.parents[2] / "examples" / "recorded"
SNAPSHOTS: Mapping[str, Snapshot] = {
    **{name: getattr(report_samples, name)() for name in ("busy", "processes", "troubled", "idle")},
    **{
        f"{name} handshakes": getattr(handshake_samples, name)() for name in ("near", "distant", "offloaded", "failing", "idle")
    },
    "both sides": snapshot(),
    "cost": replace(report_samples.busy(), cost=COST),
    "unknown cost": replace(report_samples.busy(), cost=replace(COST, run_ns=None, cpu_ns=None)),
    "windows": SAMPLED,
}


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each by a name; of lines the first of each kind."""
    for name, sample in SNAPSHOTS.items():
        yield name, to_document(sample)
        yield f"{name} by process", to_document(sample, by_process=True)
    slowest = handshake_samples.distant().handshakes
    assert slowest
    yield "one handshake", json.loads(single_to_json(slowest.slowest[0]))
    before, after = recording_of(1), recording_of(2, key_ns=900_000)
    lines = [json.loads(line) for line in recording.to_lines(before)]
    yield from (("header", lines[0]), ("interval", lines[1]), ("end", lines[-1]))
    yield "diff", json.loads(diff.to_json(before, after, compare(before, after)))
    for file in sorted(RECORDED.glob("*.json*")):
        texts = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
        yield from ((f"{file.name} {number}", json.loads(text)) for number, text in enumerate(texts))


DOCUMENTS = {name: json.loads(json.dumps(document)) for name, document in documents()}


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json.loads(schema.FILE.read_text()))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_as_described(name: str) -> None:
    schema.check(DOCUMENTS[name])


def test_the_whole_schema_takes_each_and_nothing_else() -> None:
    whole = Draft202012Validator(json.loads(schema.FILE.read_text()))
    assert [name for name, document in DOCUMENTS.items() if not whole.is_valid(document)] == []
    assert not whole.is_valid({})
    assert not whole.is_valid({"schema": "ssllatency/1"})


@pytest.mark.parametrize("name", ["busy", "distant handshakes", "interval", "diff", "windows", "cost"])
def test_fields_may_be_added_but_none_may_be_missing(name: str) -> None:
    document = DOCUMENTS[name]
    whole = Draft202012Validator(json.loads(schema.FILE.read_text()))
    assert whole.is_valid({**document, "later": 1})
    with pytest.raises(AssertionError):
        schema.check({**document, "later": 1})
    missing = {field: value for field, value in document.items() if field != ("rows" if name == "diff" else "host")}
    assert not whole.is_valid(missing)


def test_what_files_are_said_to_hold_is_as_described(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["probes", "--json"], ["probes", "--handshakes", "--json"]):
        assert run([*words, "/usr/lib/x86_64-linux-gnu/libssl.so.3"]) == 0
        schema.check(json.loads(capsys.readouterr().out))
