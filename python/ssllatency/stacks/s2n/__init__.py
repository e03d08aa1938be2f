# SPDX-License-Identifier: Apache-2.0
"""The stack s2n-tls."""
