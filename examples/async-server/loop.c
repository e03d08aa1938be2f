// SPDX-License-Identifier: Apache-2.0
#include "loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/async.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256, RETRY_MS = 1 };

struct loop {
	struct server *server;
	int epoll;
	struct source listener, stop, signals;
	struct connection *connections, *ended; // all; those to be freed after the batch
	long open;
	bool listening, stopping;
	bool retrying;    // a connection waits FOR_RETRY
	int64_t retry_ms; // when such are advanced next
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// A connection waits FOR_RETRY from now on.
static void retry_soon(struct loop *loop)
{
	if (!loop->retrying)
		loop->retry_ms = now_ms() + (loop->server->options.poll_ms ? loop->server->options.poll_ms : RETRY_MS);
	loop->retrying = true;
}

static int timeout_ms(const struct loop *loop)
{
	int64_t left_ms = loop->retry_ms - now_ms();

	return !loop->retrying ? -1 : left_ms > 0 ? (int)left_ms : 0;
}

static bool watch(struct loop *loop, struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

// A loop that is full takes no more from the listener; other loops still do.
static void listen_or_not(struct loop *loop)
{
	bool wanted = !loop->stopping && loop->open < loop->server->options.connections;

	if (wanted && !loop->listening)
		loop->listening = watch(loop, &loop->listener, EPOLLIN | EPOLLEXCLUSIVE);
	else if (!wanted && loop->listening)
		loop->listening = epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->listener.fd, NULL) != 0;
}

static void forget(struct loop *loop, struct connection *connection)
{
	connection->next_ended = loop->ended;
	loop->ended = connection;
}

static void advance(struct loop *loop, struct connection *connection)
{
	if (connection->state == ENDED)
		return;
	connection__advance(connection);
	if (loop->stopping && connection->state != ENDED && connection->waiting == FOR_SOCKET)
		connection__abandon(connection);
	if (connection->state == ENDED) {
		forget(loop, connection);
	} else if (connection->waiting == FOR_RETRY) {
		retry_soon(loop);
	}
}

static void leave(struct loop *loop, struct connection *connection)
{
	connection__leave(connection);
	forget(loop, connection);
}

static void add(struct loop *loop, int fd)
{
	struct server *server = loop->server;
	struct counters *counters = &server->counters;
	const int yes = 1;

	count(&counters->accepted);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	struct connection *connection = connection__new(fd, loop->epoll, server->tls.context, counters, &server->options);
	if (!connection) {
		count(&counters->failed);
		count(&counters->ended);
		return;
	}
	connection->next = loop->connections;
	connection->link = &loop->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	loop->connections = connection;
	loop->open++;
	count(&counters->open);
	advance(loop, connection);
}

static void accept_all(struct loop *loop)
{
	for (int i = 0; i < BATCH && loop->open < loop->server->options.connections; i++) {
		int fd = accept4(loop->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		add(loop, fd);
	}
}

static void dispatch(struct loop *loop, struct source *source)
{
	struct connection *connection = source->connection;

	if (connection) {
		if (connection->waiting == (source->job ? FOR_JOB : FOR_SOCKET))
			advance(loop, connection);
		else if (connection__is_left(connection, source))
			leave(loop, connection);
	} else if (source == &loop->listener) {
		accept_all(loop);
	} else if (source == &loop->stop) {
		loop->stopping = true;
	}
}

void server__write_report(struct server *server)
{
	printf("{");
	counters__write(&server->counters, stdout);
	printf(", \"engine\": ");
	offload__write(&server->tls.offload, stdout);
	printf("}\n");
	fflush(stdout);
}

static void take_signal(struct server *server)
{
	const uint64_t one = 1;
	struct signalfd_siginfo signal;

	if (read(server->signals, &signal, sizeof(signal)) != sizeof(signal))
		return;
	if (signal.ssi_signo == SIGUSR1)
		server__write_report(server);
	else if (write(server->stop, &one, sizeof(one)) < 0)
		_exit(1); // Can't happen: an eventfd that nobody reads takes it.
}

static void drop(struct loop *loop, struct connection *connection)
{
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	connection__free(connection);
	loop->open--;
	atomic_fetch_sub(&loop->server->counters.open, 1);
}

// Connections that nothing will tell to go on. The stopping server takes what has come already, then ends them.
static void advance_others(struct loop *loop)
{
	bool due = timeout_ms(loop) == 0;

	loop->retrying &= !due;
	for (struct connection *each = loop->connections; each; each = each->next)
		if ((due && each->waiting == FOR_RETRY) || (loop->stopping && each->waiting == FOR_SOCKET))
			advance(loop, each);
}

// After a batch, when no event of it can name a connection that has gone.
static void tidy(struct loop *loop)
{
	struct connection *next;

	if (loop->retrying || loop->stopping)
		advance_others(loop);
	for (; loop->ended; loop->ended = next) {
		next = loop->ended->next_ended;
		drop(loop, loop->ended);
	}
	listen_or_not(loop);
}

static void turn(struct loop *loop)
{
	struct epoll_event events[BATCH];
	int number = epoll_wait(loop->epoll, events, BATCH, timeout_ms(loop));
	bool asked = false;

	for (int i = 0; i < number; i++) {
		asked |= events[i].data.ptr == &loop->signals;
		dispatch(loop, events[i].data.ptr);
	}
	tidy(loop);
	if (asked)
		take_signal(loop->server);
}

static const char *open_loop(struct loop *loop, bool first)
{
	struct server *server = loop->server;

	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->listener.fd = server->listener;
	loop->stop.fd = server->stop;
	loop->signals.fd = server->signals;
	if (loop->epoll < 0 || !watch(loop, &loop->stop, EPOLLIN) || (first && !watch(loop, &loop->signals, EPOLLIN)))
		return "epoll";
	if (server->options.async && !ASYNC_init_thread(server->options.jobs, 0))
		return "ASYNC_init_thread";
	return NULL;
}

const char *loop__run(struct server *server, bool first)
{
	struct loop loop = {.server = server};
	const char *wrong = open_loop(&loop, first);

	if (wrong)
		return wrong;
	listen_or_not(&loop);
	while (!loop.stopping || loop.connections)
		turn(&loop);
	ASYNC_cleanup_thread();
	close(loop.epoll);
	return NULL;
}
