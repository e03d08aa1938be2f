# SPDX-License-Identifier: Apache-2.0
"""GnuTLS, from 3.6 on: one shared library, whose functions say by a negative number why they didn't succeed."""
