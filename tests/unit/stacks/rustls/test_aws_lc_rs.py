# SPDX-License-Identifier: Apache-2.0
"""AWS-LC of Rust's package: its functions are planned under their names without the version, and none of two versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import build

from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.planner import plan_image

SIGN, PSS, DERIVE = "aws_lc_EVP_DigestSign", "aws_lc_RSA_sign_pss_mgf1", "aws_lc_EVP_PKEY_derive"


@pytest.mark.parametrize("shared", [False, True])
def test_its_functions_are_planned(tmp_path: Path, shared: bool) -> None:
    source = "aws_lc_rs.c"
    path = build.library(tmp_path, "module.so", (source,)) if shared else build.program(tmp_path, "server", source)
    image = Image.open(path)
    plan = plan_image(image)
    assert (plan.kind, plan.stack, plan.version) == ("aws-lc-rs", "rustls", "rustls 0.23.46")
    assert {operation.operation for operation in plan.operations} == {SIGN, PSS, DERIVE}
    assert {missing.reason for missing in plan.missing} == {"not in this library"}
    facts = file_facts(image)
    assert (facts.libraries, facts.others, facts.obstacle) == (("aws-lc-rs",), (("rustls", "0.23.46"),), "")


def test_of_two_versions_none_is_taken(tmp_path: Path) -> None:
    plan = plan_image(Image.open(build.program(tmp_path, "server", "aws_lc_rs.c", "-DSECOND_VERSION")))
    assert plan.operations == ()
    assert {missing.reason for missing in plan.missing} == {"several versions of AWS-LC are in the file"}


def test_without_symbols_it_is_only_recognised(tmp_path: Path) -> None:
    facts = file_facts(Image.open(build.program(tmp_path, "server", "aws_lc_rs.c", "-s")))
    assert (facts.libraries, facts.others) == ((), (("rustls", "0.23.46"),))
