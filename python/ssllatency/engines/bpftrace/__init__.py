# SPDX-License-Identifier: Apache-2.0
"""The plan as a bpftrace script: written, run, and what it prints read back."""
