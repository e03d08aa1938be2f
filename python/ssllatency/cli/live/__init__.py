# SPDX-License-Identifier: Apache-2.0
"""Commands that trace what runs."""
