# SPDX-License-Identifier: Apache-2.0
"""Machine code: how control flows through it, what small functions return, where functions are called. x86-64 and aarch64."""
