# SPDX-License-Identifier: Apache-2.0
"""Go's crypto/tls, which isn't traced."""
