# SPDX-License-Identifier: Apache-2.0
"""A room for each TLS stack that is traced: what is particular to that library, and to no other."""
