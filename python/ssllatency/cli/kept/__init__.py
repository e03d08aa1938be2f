# SPDX-License-Identifier: Apache-2.0
"""Commands on what was measured and kept."""
