# SPDX-License-Identifier: Apache-2.0
"""The rights that the process that speaks to the network gives up: every capability, its user, its way to new privileges, to
write or run files, and the system calls by which a process reaches the kernel's programs or other processes, or makes some.
There is no way back.

Where a service has but one user, as with DynamicUser= of systemd, that is what keeps it from the plans that the tracer keeps,
and from /proc/PID/mem of others.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import struct
from collections.abc import Collection
from contextlib import suppress

from ssllatency.errors import SsllatencyError
from ssllatency.system_calls import Answer, CallRule, Instruction, limit_to, program

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3, _MOST_CAPABILITIES = 0x20080522, 64
_NOBODY = 65534

_CLONE_THREAD, _CLONE3 = 0x10000, 435
# By machine: clone, which only makes threads, and prlimit64, which only is of this process.
_IN_PART = {"x86_64": (56, 302), "aarch64": (220, 261)}
# Landlock: since Linux 5.13, with more to refuse in each version.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF, _LANDLOCK_VERSION = 444, 446, 1
_EXECUTE, _WRITE_FILE, _REMOVE_AND_MAKE, _REFER, _TRUNCATE = 1 << 0, 1 << 1, 0x1FF << 4, 1 << 13, 1 << 14

# By machine: AUDIT_ARCH_*, capset, and by name the calls that are refused.
_REFUSED = {
    "x86_64": (
        0xC000003E,
        126,
        {
            "bpf": 321, "perf_event_open": 298, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
            "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "kill": 62, "tgkill": 234, "tkill": 200,
            "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "kcmp": 312, "open_by_handle_at": 304,
            "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
            "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "move_mount": 429,
            "open_tree": 428, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "init_module": 175, "finit_module": 313,
            "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168,
            "syslog": 103, "keyctl": 250, "add_key": 248, "request_key": 249, "userfaultfd": 323, "io_uring_setup": 425,
            "io_uring_enter": 426, "io_uring_register": 427, "personality": 135, "quotactl": 179, "acct": 163,
            "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "iopl": 172, "ioperm": 173,
            "modify_ldt": 154,
        },
    ),
    "aarch64": (
        0xC00000B7,
        91,
        {
            "bpf": 280, "perf_event_open": 241, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
            "execve": 221, "execveat": 281, "kill": 129, "tgkill": 131, "tkill": 130,
            "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "kcmp": 272, "open_by_handle_at": 265,
            "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
            "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "move_mount": 429,
            "open_tree": 428, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "init_module": 105, "finit_module": 273,
            "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294, "reboot": 142, "swapon": 224, "swapoff": 225,
            "syslog": 116, "keyctl": 219, "add_key": 217, "request_key": 218, "userfaultfd": 282, "io_uring_setup": 425,
            "io_uring_enter": 426, "io_uring_register": 427, "personality": 92, "quotactl": 60, "acct": 89, "settimeofday": 170,
            "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266,
        },
    ),
}  # fmt: skip


def user_ids(name: str) -> tuple[int, int]:
    """The user and group of that name, or number. SsllatencyError where there is none, or where it is root."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        found = entry.pw_uid, entry.pw_gid
    except KeyError:
        if name != "nobody":
            raise SsllatencyError(f"--user: there is no user {name}.", 2) from None
        found = _NOBODY, _NOBODY
    if 0 in found:
        raise SsllatencyError("--user can't be root: the process that speaks to the network has no privileges.", 2)
    return found


def keeps_from_files() -> bool:
    """Whether confine() would keep this process from files that its user may write: by another user, or by Landlock."""
    return os.geteuid() == 0 or _landlock(ctypes.CDLL(None, use_errno=True)) >= 1


def confine(user: tuple[int, int], parent: int) -> None:
    """Gives all of that up; the process is killed when its parent is gone. OSError where the kernel refuses a part of it."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in range(_MOST_CAPABILITIES):
        library.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused where it isn't held, or beyond the last there is
    library.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    architecture, capset, calls = _REFUSED.get(os.uname().machine, (0, 0, {}))
    if capset:
        _checked(library.syscall(capset, struct.pack("<Ii", _CAPABILITY_VERSION_3, 0), bytes(24)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _checked(library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))
    _checked(library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(1)
    _checked(library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _write_nothing(library)
    if calls:
        with suppress(OSError):  # a kernel without seccomp filters: the rest holds
            limit_to(system_call_filter(architecture, sorted(calls.values()), *_IN_PART[os.uname().machine]))


def _landlock(library: ctypes.CDLL) -> int:
    """Its version; less than 1 where the kernel has none."""
    return int(library.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _write_nothing(library: ctypes.CDLL) -> None:
    """No file can be written, made, removed, cut short or run from now on, whoever it belongs to; descriptors that are open
    stay as they are. A kernel without Landlock refuses: then it is the user alone that counts."""
    version = _landlock(library)
    if version < 1:
        return
    refused = _EXECUTE | _WRITE_FILE | _REMOVE_AND_MAKE
    refused |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = struct.pack("<Q", refused)
    descriptor = library.syscall(_LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    if descriptor < 0:
        return
    try:
        _checked(library.syscall(_LANDLOCK_RESTRICT_SELF, descriptor, 0))
    finally:
        os.close(descriptor)


def system_call_filter(architecture: int, refused: Collection[int], clone: int, limits: int) -> list[Instruction]:
    """The filter; `clone` and `limits` are the calls that are allowed in part. clone3 is lacking, as its flags can't be seen:
    the C library then takes clone."""
    rules = [CallRule(number, Answer.REFUSED) for number in refused]
    rules += [
        CallRule(_CLONE3, Answer.LACKING),
        CallRule(clone, Answer.ALLOWED, 0, bits=_CLONE_THREAD),
        CallRule(limits, Answer.ALLOWED, 0),
    ]
    return program(rules, Answer.ALLOWED, architecture, foreign=Answer.END)
