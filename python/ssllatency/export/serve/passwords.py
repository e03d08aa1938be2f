# SPDX-License-Identifier: Apache-2.0
"""Basic authentication by bcrypt hashes. A check takes a good part of a second of CPU time by design: one runs at a time, and
what was right is remembered, as a digest."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from ssllatency.errors import SsllatencyError

_MOST_REMEMBERED = 100
_LONGEST = 72  # bytes of a password that bcrypt knows
# The hash of a password that nobody has: an unknown user takes as long as a known one.
_NOBODY = "$2b$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"


class Passwords:
    """Users with the hashes of their passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        try:
            import bcrypt
        except ModuleNotFoundError:
            raise SsllatencyError("basic_auth_users needs the package bcrypt: pip install 'ssllatency[export]'.") from None

        self._check = bcrypt.checkpw
        self._users = dict(users)
        self._salt = secrets.token_bytes(16)
        self._right: set[bytes] = set()
        self._lock = Lock()

    def admit(self, authorization: str) -> bool:
        """Whether this is the Authorization header of a known user with the right password."""
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        with suppress(ValueError):
            user, separator, password = base64.b64decode(encoded, validate=True).decode().partition(":")
            return bool(separator) and self._is_right(user, password.encode())
        return False

    def _is_right(self, user: str, password: bytes) -> bool:
        digest = hmac.digest(self._salt, f"{len(user)}:{user}:".encode() + password, hashlib.sha256)
        with self._lock:
            if digest in self._right:
                return True
            right = self._check(password[:_LONGEST], self._users.get(user, _NOBODY).encode()) and user in self._users
            if right:
                if len(self._right) >= _MOST_REMEMBERED:
                    self._right.clear()
                self._right.add(digest)
            return right
