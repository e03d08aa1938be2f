# SPDX-License-Identifier: Apache-2.0
"""What `ssllatency export` has counted, read back from Prometheus as a recording."""
