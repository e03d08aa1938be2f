# SPDX-License-Identifier: Apache-2.0
"""From the maps that the kernel side fills to plain data of the model."""
