# SPDX-License-Identifier: Apache-2.0
"""Whose names the codes of an image have: those of the libraries that go with it, never those of another stack."""

from __future__ import annotations

from typing import cast

from ssllatency.engines.base import TracedImage
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.names import Names, pack
from ssllatency.tracing.handshake_sources import _names_of
from ssllatency.tracing.plan_source import PlanSource

CODE = (16, 112)  # OpenSSL's elliptic curves have it, and so has BoringSSL's libssl
NAMES = {
    "/libssl.so.3": Names(major=3),
    "/libcrypto.so.3": Names({CODE: "invalid argument"}, major=3),
    "/grpc.so": Names({(16, 184): "no shared cipher"}, major=1, ssl=16),
}
STACKS = {"/grpc.so": "boringssl"}


class Source:
    """Knows the names of these files."""

    def names_of(self, image: TracedImage) -> Names:
        return NAMES[image.plan.path]


def test_the_same_code_of_another_stack_is_another() -> None:
    plans = [FilePlan(path, "", "", "static", (), (), stack=STACKS.get(path, "openssl")) for path in NAMES]
    names = _names_of(cast("PlanSource", Source()), [TracedImage(plan, plan.path, (1,)) for plan in plans])
    openssl, _, boringssl = (names(index) for index in range(len(plans)))
    assert openssl.reason(pack(*CODE, 3)) == "invalid argument"
    assert boringssl.reason(pack(*CODE, 1)) == ""
    assert boringssl.reason(pack(16, 184, 1)) == "no shared cipher"
