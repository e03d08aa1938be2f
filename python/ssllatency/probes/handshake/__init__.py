# SPDX-License-Identifier: Apache-2.0
"""Where the phases of a handshake begin and end inside a TLS library, and where its errors are raised."""
