# SPDX-License-Identifier: Apache-2.0
"""Certificates that servers send, as DER: what they show of themselves."""
