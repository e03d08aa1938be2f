# SPDX-License-Identifier: Apache-2.0
"""The JSON documents: written, and read again without loss."""
