# SPDX-License-Identifier: Apache-2.0
"""What runs inside the guest: `init`, its first process, and `run`, which carries out the checks."""
