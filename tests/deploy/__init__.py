# SPDX-License-Identifier: Apache-2.0
"""What deploy/ holds, as far as it can be checked without installing it: the unit, the DaemonSet, the Debian package."""
