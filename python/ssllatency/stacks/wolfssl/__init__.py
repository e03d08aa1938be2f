# SPDX-License-Identifier: Apache-2.0
"""wolfSSL: one shared library, whose connections say by a negative number why a call on them didn't succeed."""
