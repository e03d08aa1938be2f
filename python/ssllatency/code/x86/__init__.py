# SPDX-License-Identifier: Apache-2.0
"""x86-64 instructions, behind the interfaces of machine.py and evaluate.py."""
