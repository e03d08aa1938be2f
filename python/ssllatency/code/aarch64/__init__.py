# SPDX-License-Identifier: Apache-2.0
"""aarch64 instructions, behind the interfaces of machine.py and evaluate.py."""
