# SPDX-License-Identifier: Apache-2.0
"""Asking an object who shook hands: which labels it reads, and how many texts it has room for."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.model.handshakes import WHO, Label, PeerPrefix


def ask(loaded: Loadable, by: Iterable[Label], prefix: PeerPrefix, most: int) -> int:
    """Sets up an object that isn't loaded yet, with room for `most` texts of each label; for how many that is in all."""
    wanted = [label for label in by if label in WHO]
    who = loaded.section(".rodata.who_config", abi.WhoConfig)
    who.labels, who.prefix4, who.prefix6 = sum(1 << abi.Label[label.name] for label in wanted), prefix.ipv4, prefix.ipv6
    texts = most * sum(label is not Label.PORT for label in wanted)
    loaded.resize_map("texts", max(1, texts))
    return texts
