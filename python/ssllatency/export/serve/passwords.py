# SPDX-License-Identifier: Apache-2.0
"""Basic authentication by bcrypt hashes. A check takes a good part of a second of CPU time by design: one runs at a time and
few wait for it, and what was right is remembered, as a digest, so that it waits for no check."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from threading import BoundedSemaphore, Lock

from ssllatency.errors import SsllatencyError

MOST_WAITING = 4  # for their checks, or being checked
_MOST_REMEMBERED = 100
_LONGEST = 72  # bytes of a password that bcrypt knows
# The hash of a password that nobody has, without its beginning, which says how dear a check is.
_NOBODY = "QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
_PREFIX = re.compile(r"\$2[abxy]\$\d\d\$")


class Busy(Exception):
    """Too many wait for their passwords to be checked."""


class Passwords:
    """Users with the hashes of their passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        try:
            import bcrypt
        except ModuleNotFoundError:
            raise SsllatencyError("basic_auth_users needs the package bcrypt: pip install bcrypt.") from None

        self._check = bcrypt.checkpw
        self._users = dict(users)
        # An unknown user takes as long as the one with the dearest hash.
        self._nobody = max((match[0] for hashed in users.values() if (match := _PREFIX.match(hashed))), default="$2b$10$")
        self._nobody += _NOBODY
        self._salt = secrets.token_bytes(16)
        self._right: set[bytes] = set()
        self._checking, self._room = Lock(), BoundedSemaphore(MOST_WAITING)

    def admit(self, authorization: str) -> bool:
        """Whether this is the Authorization header of a known user with the right password. Busy where too many are checked."""
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        with suppress(ValueError):
            user, separator, password = base64.b64decode(encoded, validate=True).decode().partition(":")
            return bool(separator) and self._is_right(user, password.encode())
        return False

    def _is_right(self, user: str, password: bytes) -> bool:
        digest = hmac.digest(self._salt, f"{len(user)}:{user}:".encode() + password, hashlib.sha256)
        if digest in self._right:
            return True
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            with self._checking:
                hashed = self._users.get(user, self._nobody)
                right = self._check(password[:_LONGEST], hashed.encode()) and user in self._users
        finally:
            self._room.release()
        if right:
            if len(self._right) >= _MOST_REMEMBERED:
                self._right = set()
            self._right.add(digest)
        return right
