# SPDX-License-Identifier: Apache-2.0
"""The sites of Go functions: how they are chosen, and a second opinion on them."""
