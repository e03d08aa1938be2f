# SPDX-License-Identifier: Apache-2.0
"""Sites in a TLS library at which the phases of a handshake begin and end, and its errors are raised."""
