# SPDX-License-Identifier: Apache-2.0
"""What is printed one by one as it ends."""
