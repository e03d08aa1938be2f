# SPDX-License-Identifier: Apache-2.0
"""The packages installed in clean roots, and the image run as a container. By hand, `make test-packages`: it takes minutes."""
