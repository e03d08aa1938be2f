# SPDX-License-Identifier: Apache-2.0
"""Java's own TLS (JSSE), as the JVM's Flight Recorder tells of it: handshakes --jfr."""
