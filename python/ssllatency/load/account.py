# SPDX-License-Identifier: Apache-2.0
"""The user that the load generators run as: they don't need root's rights, and talk to servers that may send them anything."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import kernel_fields
from ssllatency.load.figures import LoadError

_SETUID_AND_SETGID = 1 << 7 | 1 << 6  # CAP_SETUID, CAP_SETGID
_NOBODY = 65534


@dataclass(frozen=True)
class Account:
    """A user of this machine, by numbers."""

    uid: int
    gid: int


def of_tools(name: str = "") -> Account | None:
    """The named account. Without a name, for root: the account of sudo's user, or else nobody. None where the tools run as this
    process's own user, also for a root that isn't allowed to change users.

    LoadError where there is none of that name, or only root could change to it.
    """
    own_uid = os.geteuid()
    account = _named(name) if name else _unprivileged(os.environ) if own_uid == 0 and _may_change() else None
    if account is None or account.uid == own_uid:
        return None
    if own_uid != 0:
        raise LoadError(f"Only root runs the load generator as another user: leave out --user {name}.", 2)
    return account


def _may_change(status: Path = Path("/proc/self/status")) -> bool:
    """Whether this process may take another account's user and groups."""
    effective = kernel_fields(status).get("CapEff", "0")
    return int(effective, 16) & _SETUID_AND_SETGID == _SETUID_AND_SETGID


def _named(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise LoadError(f"There is no user {name}: name one of this machine (getent passwd shows them).", 2) from None
    return Account(entry.pw_uid, entry.pw_gid)


def _unprivileged(variables: Mapping[str, str]) -> Account:
    uid, gid = variables.get("SUDO_UID", ""), variables.get("SUDO_GID", "")
    if uid.isdecimal() and gid.isdecimal() and int(uid) and int(gid):
        return Account(int(uid), int(gid))
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(_NOBODY, _NOBODY)
    return Account(entry.pw_uid, entry.pw_gid)
