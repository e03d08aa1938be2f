# SPDX-License-Identifier: Apache-2.0
"""GnuTLS: one shared library, whose functions say by a negative number why they didn't succeed."""
