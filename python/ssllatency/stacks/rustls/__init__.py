# SPDX-License-Identifier: Apache-2.0
"""rustls, of which single functions are traced."""
