# SPDX-License-Identifier: Apache-2.0
"""The kernel's interfaces: libbpf, BPF objects, ring buffers, perf events, and the ways of attaching that this kernel has."""
