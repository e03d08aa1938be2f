# SPDX-License-Identifier: Apache-2.0
"""Facts of the host that everybody may need: its kernel and what that does to probed processes, its processors."""
