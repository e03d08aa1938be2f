# SPDX-License-Identifier: Apache-2.0
"""Where the code of OpenSSL shows the calls that a handshake's phases are, its errors and its state machine."""
