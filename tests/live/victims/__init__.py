# SPDX-License-Identifier: Apache-2.0
"""Programs made to be hard to trace, or hard to share a machine with."""
