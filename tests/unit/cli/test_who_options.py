# SPDX-License-Identifier: Apache-2.0
"""How the options are read that ask for who shook hands."""

from __future__ import annotations

import argparse

import pytest

from ssllatency.cli import options
from ssllatency.model.handshakes import Label, PeerPrefix


def test_labels_of_who_shook_hands_are_labels() -> None:
    assert options.labels("sni,version,peer") == (Label.SNI, Label.VERSION, Label.PEER)
    assert options.who("port, alpn") == (Label.PORT, Label.ALPN)
    with pytest.raises(argparse.ArgumentTypeError, match="sni, alpn, port, peer"):
        options.who("sni,version")


@pytest.mark.parametrize(
    ("text", "prefix"), [("24,56", (24, 56)), ("/16,/48", (16, 48)), ("32,128", (32, 128)), ("1,1", (1, 1))]
)
def test_prefixes_of_networks(text: str, prefix: tuple[int, int]) -> None:
    assert options.peer_prefix(text) == PeerPrefix(*prefix)


@pytest.mark.parametrize("text", ["", "24", "24,", "0,56", "24,0", "33,56", "24,129", "24,56,1", "-1,56", "a,b", "24.0,56"])
def test_what_is_no_prefix_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="like 24,56"):
        options.peer_prefix(text)
