# SPDX-License-Identifier: Apache-2.0
"""What the BPF programs consist of, and single functions of theirs, run in the kernel."""
