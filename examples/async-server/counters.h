// SPDX-License-Identifier: Apache-2.0
// What the server counts: its calls into OpenSSL by how each of them ended, and what came of them.
#ifndef COUNTERS_H
#define COUNTERS_H

#include <stdatomic.h>
#include <stdio.h>

enum call { CALL_HANDSHAKE, CALL_READ, CALL_WRITE, CALL_SHUTDOWN, CALLS };
enum outcome { SUCCESS, WANT_READ, WANT_WRITE, WANT_ASYNC, WANT_ASYNC_JOB, CLOSED, FAILURE, OUTCOMES };

struct counters {
	atomic_ulong accepted, open, ended; // connections
	atomic_ulong failed;                // ended by an error, handshake or later
	atomic_ulong abandoned;             // ended by the server's own end, with a handshake or request under way
	atomic_ulong handshakes, resumed, requests;
	atomic_ulong calls[CALLS][OUTCOMES];
};

static inline void count(atomic_ulong *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

// Writes the counters as JSON fields, without the braces around them.
void counters__write(const struct counters *counters, FILE *out);

#endif
