# SPDX-License-Identifier: Apache-2.0
"""What libcrypto shows of a BIO, for the libssl of the same processes."""

from __future__ import annotations

from ssllatency.probes.join import complete
from ssllatency.probes.plan import FilePlan, SslOffsets

SSL = FilePlan("/libssl", "", "", "libssl", (), (), SslOffsets(rwstate=40))


def crypto(**offsets: int) -> FilePlan:
    return FilePlan("/libcrypto", "", "", "libcrypto", (), (), SslOffsets(**offsets))


def joined(*others: tuple[FilePlan, tuple[int, ...]]) -> SslOffsets:
    return complete([(SSL, (7,)), *others])[0].offsets


def test_offsets_come_from_the_same_process() -> None:
    bio = {"bio_flags": 48, "bio_method": 8, "bio_descriptor": 56}
    assert joined((crypto(**bio), (7, 8))) == SslOffsets(rwstate=40, **bio)
    assert joined((crypto(**bio), (8,))) == SslOffsets(rwstate=40)


def test_what_two_libraries_disagree_about_is_unknown() -> None:
    first, second = crypto(bio_flags=40, bio_method=0), crypto(bio_flags=48, bio_method=0, bio_descriptor=48)
    assert joined((first, (7,)), (second, (7,))) == SslOffsets(rwstate=40, bio_method=0, bio_descriptor=48)


def test_only_a_libssl_is_completed() -> None:
    plans = complete([(SSL, (7,)), (crypto(bio_flags=48), (7,)), (crypto(), (7,))])
    assert [plan.offsets.bio_flags for plan in plans] == [48, 48, None]
