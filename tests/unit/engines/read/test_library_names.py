# SPDX-License-Identifier: Apache-2.0
"""Whose names the codes of an image have: those of the libraries that go with it, never those of another stack."""

from __future__ import annotations

from ssllatency.engines.base import TracedImage
from ssllatency.engines.read.library_names import names_in
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.names import Names, pack

CODE = (16, 112)  # OpenSSL's elliptic curves have it, and so has BoringSSL's libssl
NAMES = {
    "/libssl.so.3": Names(major=3),
    "/libcrypto.so.3": Names({CODE: "invalid argument"}, major=3),
    "/grpc.so": Names({(16, 184): "no shared cipher"}, major=1, ssl=16),
}
STACKS = {"/grpc.so": "boringssl"}


def names_of(image: TracedImage) -> Names:
    return NAMES[image.plan.path]


def test_the_same_code_of_another_stack_is_another() -> None:
    plans = [FilePlan(path, "", "", "static", (), (), stack=STACKS.get(path, "openssl")) for path in NAMES]
    names = names_in([TracedImage(plan, plan.path, (1,), read_names=names_of) for plan in plans])
    openssl, _, boringssl = (names(index) for index in range(len(plans)))
    assert openssl.reason(pack(*CODE, 3)) == "invalid argument"
    assert boringssl.reason(pack(*CODE, 1)) == ""
    assert boringssl.reason(pack(16, 184, 1)) == "no shared cipher"


def test_names_are_read_when_they_are_asked_for_and_once() -> None:
    read: list[TracedImage] = []

    def noted(image: TracedImage) -> Names:
        read.append(image)
        return NAMES[image.plan.path]

    images = [TracedImage(FilePlan(path, "", "", "static", (), ()), path, (1,), read_names=noted) for path in NAMES]
    names = names_in(images[:1])
    assert read == []
    assert [names(0), names(0)] == [NAMES["/libssl.so.3"]] * 2
    assert read == images[:1]
    unnamed = FilePlan("/x.so", "", "", "static", (), ())
    assert names_in([TracedImage(unnamed, "/x.so", (1,))])(0) == Names()
