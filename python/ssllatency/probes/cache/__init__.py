# SPDX-License-Identifier: Apache-2.0
"""Plans and names kept on disk, under keys that say what they depend on."""
