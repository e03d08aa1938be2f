# SPDX-License-Identifier: Apache-2.0
"""BoringSSL and its descendant AWS-LC: OpenSSL's calls, with structures, states and codes of their own."""
