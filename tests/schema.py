# SPDX-License-Identifier: Apache-2.0
"""Documents and lines of JSON against docs/schema: each by the definition that is its own, and without fields unknown there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs" / "schema" / "ssllatency-1.schema.json"
_DEFINITIONS = {
    "ssllatency/1": "measurement",
    "ssllatency-recording/1": "recording_header",
    "ssllatency-diff/1": "diff",
    "ssllatency-targets/1": "targets",
    "ssllatency-probes/1": "probes",
    "ssllatency-handshake-probes/1": "handshake_probes",
}


def check(document: Mapping[str, Any]) -> None:
    """Fails with the first thing that isn't as the schema has it. Readers may meet fields that it doesn't name, as later
    versions add some; this version's own must all be there."""
    if not FILE.exists():  # in the guests of tests/kernels, which have neither documents nor the library
        return
    plain = json.loads(json.dumps(document))
    errors = sorted(_validator(definition_of(plain)).iter_errors(plain), key=lambda error: error.json_path)
    assert not errors, f"{errors[0].json_path}: {errors[0].message[:300]} (a new field belongs into docs/schema)"


def definition_of(document: Mapping[str, Any]) -> str:
    """The name of the definition that a document or line must meet."""
    if "schema" not in document:
        return "recording_end" if "end" in document else "calls_dropped" if "dropped" in document else "call"
    if "handshake" in document and document["schema"] == "ssllatency/1":
        return "handshake_line"
    return "recording_interval" if "interval" in document else _DEFINITIONS[document["schema"]]


@cache
def _validator(definition: str) -> Any:
    from jsonschema import Draft202012Validator  # not in guests

    schema = _closed(json.loads(FILE.read_text()))
    del schema["anyOf"]
    return Draft202012Validator({**schema, "$ref": f"#/$defs/{definition}"})


def _closed(schema: Any) -> Any:
    """The schema with every object closed whose properties it names, but for those that it leaves open itself."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if closed.get("type") == "object" and "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed
