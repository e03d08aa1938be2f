# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL 3 whose symbols were stripped, and what connections are labelled by there."""
