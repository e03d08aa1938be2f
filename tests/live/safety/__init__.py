# SPDX-License-Identifier: Apache-2.0
"""What tracing may never do: read secrets, take more than it may, let one process spoil another's counts."""
