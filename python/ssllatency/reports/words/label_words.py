# SPDX-License-Identifier: Apache-2.0
"""Names of the endings and labels of handshakes in text."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.model.handshakes import GIVEN, NO, WHO, YES, Ending, Label

ADJECTIVES = {Ending.SUCCESS: "successful", Ending.FAILURE: "failed", Ending.ABANDONED: "abandoned"}
LABELS = {label: str(label).replace("_", " ") for label in Label} | {Label.SNI: "SNI", Label.ALPN: "ALPN"}

_ANSWERS = {
    (Label.RESUMED, YES): "resumed",
    (Label.RESUMED, NO): "full",
}


def label_heading(label: Label) -> str:
    """The label's name over a column."""
    return LABELS[label][:1].upper() + LABELS[label][1:]


def value_words(label: Label, value: str | None) -> str:
    """The value beside its label: "full" for a handshake that wasn't resumed."""
    return _ANSWERS.get((label, value or ""), value or "unknown")


def labels_words(labels: Mapping[Label, str | None]) -> str:
    """The labels of one handshake, in words that need no label beside them."""
    client = ["client certificate"] if labels.get(Label.CLIENT_CERTIFICATE) == GIVEN else []
    others = [label for label in Label if label not in (Label.CLIENT_CERTIFICATE, *WHO) and labels.get(label)]
    who = [f"{LABELS[label]} {labels[label]}" for label in WHO if labels.get(label)]
    return ", ".join([*(value_words(label, labels[label]) for label in others), *client, *who])


def key_words(operation: str, key: str) -> str:
    """The words for the use of a private key: "RSA-2048 signing"."""
    verb = {"sign": "signing", "decrypt": "decryption"}.get(operation, operation)
    return f"{key} {verb}" if key else f"{verb} with an unknown key"
