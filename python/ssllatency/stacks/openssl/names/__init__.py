# SPDX-License-Identifier: Apache-2.0
"""Names for the codes that a TLS library uses, read out of its own tables."""
