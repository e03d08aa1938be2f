# SPDX-License-Identifier: Apache-2.0
"""rustls, which isn't traced."""
