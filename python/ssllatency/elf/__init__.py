# SPDX-License-Identifier: Apache-2.0
"""One ELF image: symbols, relocations, method and provider tables, unwind ranges, debug files. Imports no other room."""
