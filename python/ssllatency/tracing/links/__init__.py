# SPDX-License-Identifier: Apache-2.0
"""Links that all processes share, or that each has of its own: who must not get any, who else pays for them."""
