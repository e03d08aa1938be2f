# SPDX-License-Identifier: Apache-2.0
"""What goes between the guests and the host, which guests there are, and what the table makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kernels.guest.checks.catalogue import CHECKS
from tests.kernels.guests import with_earlier
from tests.kernels.images import load_order
from tests.kernels.machine import PROCESSORS
from tests.kernels.packages import WANTED
from tests.kernels.plans import DEBIAN_13, plans, roots_for
from tests.kernels.results import Outcome, Result, read_results
from tests.kernels.table import BEGIN, END, read_tables, tables, with_kept, with_tables


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
    of_arm64 = {"signed return addresses"}
    assert {check for plan in chosen for check in plan.checks} == set(CHECKS) - {"panic"} - of_arm64
    assert {check for plan in plans("all", "arm64") for check in plan.checks} == set(CHECKS) - {"panic"}


@pytest.mark.parametrize("selection", ["ci", "all", "6.12", "6.1,newest"])
def test_the_roots_that_guests_boot_with_are_set_up(selection: str) -> None:
    chosen = plans(selection, "arm64")
    assert {plan.root for plan in chosen} == set(roots_for({plan.kernel.name for plan in chosen}))
    assert {plan.processor for plan in chosen} <= set(PROCESSORS)


def test_on_aarch64_debian_13_runs_where_signatures_are_checked() -> None:
    chosen = [plan for plan in plans("all", "arm64") if plan.root == DEBIAN_13]
    assert chosen
    assert all("signed return addresses" in plan.checks and plan.processor for plan in chosen)


def test_some_checks_only() -> None:
    chosen = plans("6.12", "amd64", "reload,nothing left")
    assert [(plan.name, plan.checks) for plan in chosen] == [
        ("6.12", ("reload", "nothing left")),
        ("6.12 Debian 13", ("reload",)),
    ]


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


def guest(
    release: str,
    results: dict[str, Any],
    complaints: tuple[str, ...] = (),
    machine: tuple[str, str, str] = ("amd64", "bookworm", ""),
) -> dict[str, Any]:
    architecture, root, processor = machine
    more = {"architecture": architecture, "root": root, "processor": processor, "trouble": ""}
    return {"release": release, "results": results, "complaints": list(complaints), **more}


def result(outcome: str = "passed", detail: str = "", **facts: Any) -> dict[str, Any]:
    return {"outcome": outcome, "detail": detail, "facts": facts, "seconds": 61.2}


def test_the_tables() -> None:
    checks = {
        "programs load": result(ways=["perf"]),
        "sites": result(checked=42),
        "costs of sites": result(**{"stepped to emulated": 1.9}),
        "trace": result(),
        "trace perf": result(),
        "trace multi": result("refused", "this kernel can't attach by multi"),
        "links shared": result("failed", "AssertionError: 3 of 4"),
    }
    stress = {"stress": result(runs=4, connections=1000, preemption="none voluntary (full)")}
    found = tables([guest("6.1.0-50-cloud-amd64", checks), guest("6.1.0-50-cloud-amd64", stress, ("WARNING: a|b",))])
    (row,) = found.kernels
    assert row[:2] == ("6.1.0-50-cloud-amd64", "amd64")
    assert row[2:7] == ("perf", "yes", "yes", "1 of 5 run", "2 of 3 run; refused: trace multi")
    assert "**failed**: links shared" in row
    assert row[-3] == "1.9 x"
    assert "full: 1000 handshakes in 4 runs, 61 s" in row
    assert row[-1] == r"WARNING: a\|b"
    assert found.refusals == (("trace multi", "6.1.0-50 amd64", "this kernel can't attach by multi"),)


def refused(sentence: str) -> dict[str, Any]:
    return {"no BTF": result("refused", sentence)}


def test_machines_are_told_apart() -> None:
    """Neither the results nor the refusals of one are taken for those of another that runs the same release."""
    arm, newer = ("arm64", "bookworm", ""), ("arm64", "trixie", "signs return addresses")
    found = tables(
        [
            guest("6.12.107+deb13-cloud-amd64", refused("install amd64")),
            guest("6.12.107+deb13-cloud-arm64", refused("install arm64"), machine=arm),
            guest("6.12.107+deb13-cloud-arm64", {"trace": result(), **refused("install arm64")}, machine=newer),
        ]
    )
    assert [row[1] for row in found.kernels] == ["amd64", "arm64", "arm64, Debian 13, signs return addresses"]
    assert [row[5] for row in found.kernels] == ["-", "-", "1 of 5 run"]
    assert found.refusals == (
        ("no BTF", "6.12.107+deb13 amd64", "install amd64"),
        ("no BTF", "6.12.107+deb13 arm64, 6.12.107+deb13 arm64 Debian 13", "install arm64"),
    )


def test_what_was_measured_elsewhere_can_be_kept() -> None:
    release, other = "6.12.107+deb13-cloud-amd64", "6.1.0-50-cloud-amd64"
    loads = {"programs load": result(ways=["perf"])}
    old = tables([guest(release, {**loads, **refused("a")}), guest(other, refused("a"), ("WARNING: a|b",))])
    page = with_tables(f"before\n{BEGIN}\n{END}\n", str(old))
    assert read_tables(page) == old
    again = [guest(release, {"record": result(), "no BTF": result()})]
    kept = with_kept(again, read_tables(page))
    assert [row[0] for row in kept.kernels] == [other, release]
    assert kept.kernels[0] == old.kernels[1]
    assert kept.kernels[1][3] == "yes"  # the programs load: as before
    assert kept.kernels[1][5] == "1 of 5 run"
    assert kept.refusals == (("no BTF", "6.1.0-50 amd64", "a"),)
    assert with_kept([], old).kernels == tuple(sorted(old.kernels, reverse=True, key=lambda row: row[0] == other))


def test_part_of_the_checks_again_leaves_what_all_of_them_showed() -> None:
    release, ways = "6.12.107+deb13-cloud-amd64", ("trace perf", "trace multi", "trace session")
    full, lazy = (
        {"stress": result(runs=4, connections=each, preemption=f"({way})")} for each, way in ((1000, "full"), (750, "lazy"))
    )
    old = tables([guest(release, dict.fromkeys(ways, result())), guest(release, full)])
    again = with_kept([guest(release, {ways[0]: result()}), guest(release, lazy)], old).kernels[0]
    assert again[6] == "yes"
    assert again[-2] == "full: 1000 handshakes in 4 runs, 61 s; lazy: 750 handshakes in 4 runs, 61 s"
    failed = with_kept([guest(release, {ways[0]: result("failed", "3 of 4")})], old).kernels[0]
    assert failed[6] == "**failed**: trace perf"


def test_a_page_with_other_columns_is_not_kept() -> None:
    with pytest.raises(ValueError, match="other columns"):
        read_tables(f"{BEGIN}\n| Kernel | Architecture |\n| --- | --- |\n{END}\n")


def test_only_what_lies_between_the_marks_is_replaced() -> None:
    page = f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n"
    assert with_tables(page, "new") == f"before\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n"
