// SPDX-License-Identifier: Apache-2.0
// One event loop: accepts connections, advances those that can go on, ends them when the server is told to stop.
#ifndef LOOP_H
#define LOOP_H

#include "connection.h"

struct server {
	struct options options;
	struct tls tls;
	struct counters counters;
	int listener; // not blocking
	int stop;     // readable once the server is to stop
	int signals;  // a signalfd; the first loop reads it
};

// Runs until the server is stopped and every connection of this loop has ended. Returns NULL, or a text: why it failed.
const char *loop__run(struct server *server, bool first);
// One line of JSON on standard output: the counters, and the engine's.
void server__write_report(struct server *server);

#endif
