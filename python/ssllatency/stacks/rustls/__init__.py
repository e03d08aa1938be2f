# SPDX-License-Identifier: Apache-2.0
"""rustls, of which only the cryptography of AWS-LC is traced."""
