# SPDX-License-Identifier: Apache-2.0
"""Colours of the commands about this host: what can't be traced, and why, stands out on a terminal that shows colours; nothing
that a target or a file chose becomes one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ssllatency.cli.host import doctor, probes, targets
from ssllatency.engines.doctor import Finding
from ssllatency.output.printing import as_shown
from ssllatency.probes.listing import render
from ssllatency.probes.plan import FilePlan, MissingOperation
from ssllatency.reports.text.page import Page
from ssllatency.targets import Process, Survey
from ssllatency.targets.survey import ProcessStack, TlsProcess

PLAIN = Page(80, most=80)
COLOURED = replace(PLAIN, colour=True)
RED, BOLD, END = "\x1b[1;31m", "\x1b[1m", "\x1b[0m"
HOSTILE = "x\x1b[2J\ue000"


def coloured(lines: list[str]) -> list[str]:
    return as_shown("\n".join(lines), colour=True).split("\n")


def without_colours(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]


@pytest.mark.parametrize(("finding", "stands_out"), [
    (Finding("BTF", ok=True, detail=HOSTILE), False),
    (Finding("BTF", ok=False, detail=HOSTILE, remedy="sudo mount"), True),
    (Finding("bcc", ok=False, detail=HOSTILE, remedy="sudo apt-get install", engine="bcc"), False),
])  # fmt: skip
def test_doctor_shows_what_prevents_tracing(finding: Finding, stands_out: bool) -> None:
    lines = coloured(doctor.finding_lines(finding, COLOURED))
    assert [line.startswith(RED) and line.endswith(END) for line in lines] == [stands_out, False][: len(lines)]
    assert "\\x1b[2J\\ue000" in lines[0]
    assert without_colours(lines) == doctor.finding_lines(finding, PLAIN)


def test_probes_shows_what_is_not_probed() -> None:
    missing = tuple(MissingOperation(name, f"{HOSTILE} reason {'of many words ' * 5}") for name in ("SSL_read", "SSL_write"))
    text = render([FilePlan("/lib/a", "", "", "libssl", (), missing), FilePlan("/lib/b", "", "", "libssl", (), ())], most=80)
    lines = coloured([probes.laid_out(text, COLOURED)])
    red = [line for line in lines if line.startswith(RED)]
    assert red[0] == f"{RED}Not probed:{END}"
    assert len(red) > 2
    assert f"{RED}  x\\x1b[2J\\ue000 reason" in red[1]
    assert not any(RED in line for line in lines if "/lib/" in line)
    assert without_colours(lines) == probes.laid_out(text, PLAIN).split("\n")
    assert max(map(len, without_colours(lines))) <= 80


def test_targets_shows_what_is_not_traced() -> None:
    openssl, go = (
        ProcessStack("OpenSSL", "3.0.19", "shared", ""),
        ProcessStack("Go crypto/tls", "1.22", "static", "Go isn't traced", traceable=False),
    )
    rows = (
        TlsProcess(Process(10, 1, HOSTILE, 1), (openssl,), listens=()),
        TlsProcess(Process(30, 1, "caddy", 1), (go,), listens=()),
    )
    survey = Survey(rows, closed=(Process(40, 1, "sshd", 1),))
    table, sentence = targets.blocks(survey, COLOURED)
    heading, traced, untraced = coloured(table)
    assert [RED in line for line in (heading, traced, untraced)] == [False, False, True]
    assert "x\\x1b[2J\\ue000" in traced
    assert coloured(sentence) == [f"{BOLD}Not permitted to inspect sshd (PID 40).{END}"]
    assert [without_colours(coloured(block)) for block in (table, sentence)] == targets.blocks(survey, PLAIN)
