# SPDX-License-Identifier: Apache-2.0
"""The two processes: what each may do, and what goes between them."""
