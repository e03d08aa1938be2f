# SPDX-License-Identifier: Apache-2.0
"""What the kernel is told of the labels that tell rows apart."""

from __future__ import annotations

import pytest

from ssllatency import abi
from ssllatency.engines.sessions.handshake_sites import row_mask
from ssllatency.model.handshakes import Label


def masked(labels: abi.Labels, mask: abi.Labels) -> abi.Labels:
    """As row_key in bpf/handshakes/tables.bpf.h."""
    return abi.Labels.from_buffer_copy(bytes(a & b for a, b in zip(bytes(labels), bytes(mask), strict=True)))


def differing(one: abi.Labels, other: abi.Labels) -> set[str]:
    names = [name for name, _ in abi.Labels._fields_]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


ALL = abi.Labels.from_buffer_copy(b"\xff" * 24)


@pytest.mark.parametrize(("by", "kept"), [
    ((), set()),
    ((Label.VERSION,), {"version", "library"}),
    ((Label.CIPHER,), {"cipher", "library"}),
    ((Label.RESUMED,), {"resumed"}),
    ((Label.GROUP, Label.RESUMED), {"group", "resumed", "library"}),
    ((Label.SIGNATURE,), {"signature", "library"}),
    ((Label.CLIENT_CERTIFICATE,), {"client_certificate"}),
    ((Label.ROLE, Label.PROCESS), {"server", "tgid"}),
])  # fmt: skip
def test_rows_differ_by_the_labels_asked_for_and_by_the_ending(by: tuple[Label, ...], kept: set[str]) -> None:
    key = masked(ALL, row_mask(by))
    assert differing(key, abi.Labels()) - {"known"} == kept | {"ending"}
    assert {Label[abi.Label(bit).name] for bit in range(32) if key.known >> bit & 1} == set(by)
    for name in kept | {"ending"}:
        assert getattr(key, name) == getattr(ALL, name), name
