# SPDX-License-Identifier: Apache-2.0
"""The records that the kernel side and user space share. Generated from bpf/ssllatency.h by `make abi`: do not edit."""

from __future__ import annotations

import ctypes
from enum import IntEnum


class Convention(IntEnum):
    SSL_HANDSHAKE = 1
    SSL_IO = 2
    SSL_EX = 3
    SSL_SHUTDOWN = 4
    LENGTH = 5
    POSITIVE = 6
    ONE = 7
    POINTER = 8
    MBX8 = 9
    NONE = 11


class Cookie(IntEnum):
    OPERATION = 0
    CONVENTION = 8
    REGISTER = 12
    SHARED = 16
    SKIP_NULL = 17
    SSL = 20
    LIBRARY = 24
    STACK = 32
    CONDITION = 48
    TAKEN = 52
    OTHER = 56


class Ending(IntEnum):
    IN_REGISTER = 0
    GOES_ON = 1
    CONSTANT = 4


class Geometry(IntEnum):
    SCALE = 4
    FIRST_BUCKET = 96
    BUCKETS = 480
    LINEAR_BUCKETS = 64
    REASONS = 16
    COMM = 16
    EXTREME_BITS = 42


class Outcome(IntEnum):
    SUCCESS = 0
    FAILURE = 1
    RETRY = 2


class Reason(IntEnum):
    UNKNOWN = 0
    SSL = 1
    WANT_READ = 2
    WANT_WRITE = 3
    WANT_X509_LOOKUP = 4
    SYSCALL = 5
    ZERO_RETURN = 6
    WANT_ASYNC = 9
    WANT_ASYNC_JOB = 10
    WANT_CLIENT_HELLO_CB = 11
    WANT_RETRY_VERIFY = 12
    WANT_SESSION_LOOKUP = 13
    NONE = 15


class Role(IntEnum):
    ANY = 0
    SERVER = 1
    CLIENT = 2


class Sides(IntEnum):
    SIDE_BITS = 12
    SIDES = 4096
    SIDE_SSL = 0
    SIDE_TGID = 31
    SIDE_SERVER = 62


class Table(IntEnum):
    BITS = 14
    STARTS = 16384
    WAYS = 4
    OVERFLOW = 16384


class Tag(IntEnum):
    WAY = 0
    STACK = 2
    TGID = 33
    OPERATION = 55


class Account(ctypes.Structure):
    _fields_ = (
        ("unmatched_entries", ctypes.c_uint64),
        ("unmatched_exits", ctypes.c_uint64),
        ("map_full", ctypes.c_uint64),
        ("interval", ctypes.c_uint64),
    )


assert ctypes.sizeof(Account) == 32


class Config(ctypes.Structure):
    _fields_ = (
        ("linear_minimum_ns", ctypes.c_uint64),
        ("linear_step_ns", ctypes.c_uint64),
        ("linear_buckets", ctypes.c_uint32),
        ("filter_tgid", ctypes.c_uint32),
        ("role", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(Config) == 32


class Library(ctypes.Structure):
    _fields_ = (
        ("rwstate", ctypes.c_int32),
        ("server", ctypes.c_int32),
        ("rbio", ctypes.c_int32),
        ("wbio", ctypes.c_int32),
        ("shutdown", ctypes.c_int32),
        ("state", ctypes.c_int32),
        ("bio_flags", ctypes.c_int32),
        ("typed", ctypes.c_int32),
        ("remember", ctypes.c_int32),
        ("pad", ctypes.c_int32),
    )


assert ctypes.sizeof(Library) == 40


class Process(ctypes.Structure):
    _fields_ = (
        ("comm", ctypes.c_char * 16),
    )


assert ctypes.sizeof(Process) == 16


class Series(ctypes.Structure):
    _fields_ = (
        ("exponential", ctypes.c_uint64 * 480),
        ("underflow", ctypes.c_uint64),
        ("overflow", ctypes.c_uint64),
        ("linear", ctypes.c_uint64 * 66),
        ("total_ns", ctypes.c_uint64),
        ("maximum", ctypes.c_uint64 * 2),
        ("minimum", ctypes.c_uint64 * 2),
        ("reasons", ctypes.c_uint64 * 16),
    )


assert ctypes.sizeof(Series) == 4552


class SeriesKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("outcome", ctypes.c_uint16),
    )


assert ctypes.sizeof(SeriesKey) == 8


class Start(ctypes.Structure):
    _fields_ = (
        ("tag", ctypes.c_uint64),
        ("began_ns", ctypes.c_uint64),
        ("ssl", ctypes.c_uint64),
    )


assert ctypes.sizeof(Start) == 24


class StartKey(ctypes.Structure):
    _fields_ = (
        ("stack", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
    )


assert ctypes.sizeof(StartKey) == 16
