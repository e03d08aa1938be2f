# SPDX-License-Identifier: Apache-2.0
"""Every call is counted once, under its own outcome."""
