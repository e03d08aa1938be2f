# SPDX-License-Identifier: Apache-2.0
"""What must hold of any bytes that a stranger may have written, and the program that looks for bytes of which it doesn't."""
