# SPDX-License-Identifier: Apache-2.0
"""Commands that say what is on this host, and what could be traced."""
