# SPDX-License-Identifier: Apache-2.0
"""What the kernel offers: libbpf, BPF objects, ring buffers, perf events, and the ways of attaching that this kernel has."""
