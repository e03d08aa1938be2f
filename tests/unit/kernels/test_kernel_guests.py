# SPDX-License-Identifier: Apache-2.0
"""What goes between the guests and the host, which guests there are, and what the table makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kernels.guest.checks import CHECKS
from tests.kernels.guests import with_earlier
from tests.kernels.images import load_order
from tests.kernels.packages import WANTED
from tests.kernels.plans import plans
from tests.kernels.results import Outcome, Result, read_results
from tests.kernels.table import BEGIN, END, tables, with_tables


def test_results_come_through_the_disk() -> None:
    results = [Result("trace", Outcome.PASSED, "", 3.5, {"handshakes": 20}), Result("trace multi", Outcome.REFUSED, "can't")]
    content = b"".join(result.to_line() for result in results)
    assert read_results(content + bytes(4096)) == results
    assert read_results(content[:-10] + bytes(4096)) == results[:1]
    assert read_results(bytes(4096)) == []


def test_modules_are_loaded_after_those_that_they_need() -> None:
    dependencies = """\
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_pci_modern_dev.ko.xz kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio_pci_modern_dev.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio.ko.xz:
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz
"""
    names = [path.rpartition("/")[2] for path in load_order(dependencies, ("virtio_pci", "virtio_blk", "ext4"))]
    assert names == ["virtio.ko.xz", "virtio_pci_modern_dev.ko.xz", "virtio_pci.ko.xz", "virtio_blk.ko.xz"]


@pytest.mark.parametrize("selection", ["ci", "all", "6.12", "6.1,newest"])
def test_every_check_of_a_plan_is_there(selection: str) -> None:
    chosen = plans(selection, "amd64")
    assert {check for plan in chosen for check in plan.checks} <= set(CHECKS)
    assert len({plan.name for plan in chosen}) == len(chosen)


def test_all_is_every_kernel_and_every_check() -> None:
    chosen = plans("all", "amd64")
    assert {plan.kernel.name for plan in chosen} == set(WANTED)
    assert {check for plan in chosen for check in plan.checks} == set(CHECKS) - {"panic"}


def test_some_checks_only() -> None:
    chosen = plans("6.12", "amd64", "reload,nothing left")
    assert [(plan.name, plan.checks) for plan in chosen] == [("6.12", ("reload", "nothing left"))]


def test_results_of_other_checks_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "amd64-6.1.json"
    kept.write_text(json.dumps(guest("6.1.0-50-cloud-amd64", {"trace": result(), "reload": result("failed", "3 of 4")})))
    again = guest("6.1.0-50-cloud-amd64", {"reload": result()})
    assert with_earlier(again, kept)["results"] == {"trace": result(), "reload": result()}
    newer = guest("6.1.0-51-cloud-amd64", {"reload": result()})
    assert with_earlier(newer, kept) == newer
    assert with_earlier(newer, tmp_path / "none.json") == newer


def test_names_of_checks_survive_the_kernels_command_line() -> None:
    assert not [name for name in CHECKS if "_" in name or "," in name]


def test_a_kernel_of_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no kernel is called 5\.4: choose from ci, all, 6\.1"):
        plans("5.4,6.1", "amd64")


def guest(release: str, results: dict[str, Any], complaints: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"release": release, "architecture": "amd64", "results": results, "complaints": list(complaints), "trouble": ""}


def result(outcome: str = "passed", detail: str = "", **facts: Any) -> dict[str, Any]:
    return {"outcome": outcome, "detail": detail, "facts": facts, "seconds": 61.2}


def test_the_tables() -> None:
    checks = {
        "programs load": result(ways=["perf"]),
        "sites": result(checked=42),
        "trace": result(),
        "trace perf": result(),
        "trace multi": result("refused", "this kernel can't attach by multi"),
        "links shared": result("failed", "AssertionError: 3 of 4"),
    }
    stress = {"stress": result(runs=4, connections=1000, preemption="none voluntary (full)")}
    lines = tables(
        [guest("6.1.0-50-cloud-amd64", checks), guest("6.1.0-50-cloud-amd64", stress, ("WARNING: a|b",))]
    ).splitlines()
    row = [cell.strip() for cell in lines[2].split(" | ")]
    assert row[0] == "| 6.1.0-50-cloud-amd64"
    assert row[2:7] == ["perf", "yes", "yes", "1 of 5 run", "2 of 3 run; refused: trace multi"]
    assert "**failed**: links shared" in row
    assert "full: 1000 handshakes in 4 runs, 61 s" in row
    assert row[-1] == r"WARNING: a\|b |"
    assert lines[-1] == "| trace multi | 6.1.0-50 | this kernel can't attach by multi |"


def test_only_what_lies_between_the_marks_is_replaced() -> None:
    page = f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n"
    assert with_tables(page, "new") == f"before\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n"
