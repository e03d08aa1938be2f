# SPDX-License-Identifier: Apache-2.0
"""Which object file is opened, and that one for another processor isn't: its programs would read the wrong registers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.engines import doctor
from ssllatency.engines.bpf import objects
from ssllatency.errors import SsllatencyError
from ssllatency.host import kernel


@pytest.mark.parametrize(("own", "other"), [("x86-64", "aarch64"), ("aarch64", "x86-64")])
def test_an_object_for_another_processor_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str
) -> None:
    path = tmp_path / "ssllatency.bpf.o"
    path.write_bytes(b"\x7fELF...\0registers of " + other.encode() + b"\0...")
    monkeypatch.setattr(kernel, "machine", lambda: own)
    monkeypatch.setattr(objects, "object_path", lambda _name: path)
    with pytest.raises(SsllatencyError, match=f"is for {other}: build it here"):
        objects.open_object("ssllatency")


def test_an_object_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "object_path", lambda name: tmp_path / f"{name}.bpf.o")
    with pytest.raises(SsllatencyError, match="is missing: build it"):
        objects.open_object("ssllatency")


@pytest.mark.parametrize("changed", ["snoop.bpf.c", "handshake.h", "common/programs.bpf.h"])
def test_an_object_that_is_older_than_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    path, source = tmp_path / "snoop.bpf.o", tmp_path / "bpf" / changed
    source.parent.mkdir(parents=True)
    source.touch()
    path.write_bytes(b"\x7fELF...")
    os.utime(path, (1, source.stat().st_mtime - 1))
    monkeypatch.setattr(objects, "object_path", lambda _name: path)
    monkeypatch.setattr(objects, "sources_path", lambda: tmp_path / "bpf")
    with pytest.raises(SsllatencyError, match="is older than its sources: build it with `make bpf`"):
        objects.open_object("snoop")
    [finding] = (each for each in doctor.findings(replace(doctor.this_host(), bpf_object=path)) if each.name == "BPF object")
    assert (finding.ok, finding.remedy) == (False, "make bpf")
