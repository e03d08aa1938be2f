# SPDX-License-Identifier: Apache-2.0
"""A client of gRPC, run as a program: CHANNELS connections to an etcd, one after the other, each with CALLS calls; to any
server without.

The arguments: the port, the file with the server's certificate, CHANNELS and CALLS.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc

_RANGE = b"\x0a\x01k"  # of etcdserverpb.RangeRequest: the key "k"


def call(target: str, certificate: bytes, calls: int) -> None:
    """Makes one connection."""
    # Of the same arguments it would make one connection for all channels.
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost"))
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(certificate), options) as channel:
        grpc.channel_ready_future(channel).result(timeout=20)
        ask = channel.unary_unary("/etcdserverpb.KV/Range")
        for _ in range(calls):
            ask(_RANGE, timeout=20, wait_for_ready=True)


def main() -> None:
    port, certificate, channels, calls = sys.argv[1:]
    for _ in range(int(channels)):
        call(f"127.0.0.1:{port}", Path(certificate).read_bytes(), int(calls))


if __name__ == "__main__":
    main()
