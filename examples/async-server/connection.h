// SPDX-License-Identifier: Apache-2.0
// One TLS connection with HTTP on it: a state machine that goes on until a call of OpenSSL has to wait.
#ifndef CONNECTION_H
#define CONNECTION_H

#include "counters.h"
#include "options.h"
#include "tls.h"

#include <stdbool.h>
#include <stddef.h>

enum { MAX_REQUEST = 8192 };

enum state { HANDSHAKING, RECEIVING, ANSWERING, CLOSING, ENDED };
enum waiting { FOR_SOCKET, FOR_JOB, FOR_RETRY }; // FOR_RETRY: nothing will tell; try again soon

// What an event of epoll is about; two in each connection, so that the address tells them apart.
struct source {
	struct connection *connection; // NULL for the loop's own
	bool job;                      // a wait descriptor of the connection's async job
	int fd;
};

struct connection {
	struct source socket, job;
	SSL *ssl;
	int epoll;
	struct counters *counters;
	long requests_left;
	enum state state;
	enum waiting waiting;
	char request[MAX_REQUEST + 1];
	size_t received;          // bytes of `request`
	bool keep_alive, counted; // its handshake is
	bool impatient;           // it ends when its client goes, its job or not
	bool polled;              // its jobs are resumed now and then, whatever their descriptors say
	const char *answer;
	struct connection *next, **link; // in the loop's list
	struct connection *next_ended;
};

// NULL, with the descriptor closed, where memory or epoll refuses it. It has not made a step yet.
struct connection *connection__new(
        int fd, int epoll, SSL_CTX *context, struct counters *counters, const struct options *options);
// Goes on as far as it can.
void connection__advance(struct connection *connection);
// Whether this event says that the client of an impatient one has gone, whose job is paused; and ends it for that.
bool connection__is_left(const struct connection *connection, const struct source *source);
void connection__leave(struct connection *connection);
// Ends it because the server ends.
void connection__abandon(struct connection *connection);
void connection__free(struct connection *connection);

#endif
