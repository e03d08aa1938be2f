# SPDX-License-Identifier: Apache-2.0
"""Places in the code of OpenSSL that show the calls that a handshake's phases are, its errors and its state machine."""
