// SPDX-License-Identifier: Apache-2.0
#include "connection.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { MAX_WAIT_FDS = 16 };

#define RESPONSE(status, length, connection, body)                                                                             \
	"HTTP/1.1 " status "\r\nContent-Type: text/plain\r\nContent-Length: " length "\r\nConnection: " connection             \
	"\r\n\r\n" body
static const char kept[] = RESPONSE("200 OK", "25", "keep-alive", "Hello from async-server.\n");
static const char last[] = RESPONSE("200 OK", "25", "close", "Hello from async-server.\n");
static const char refused[] = RESPONSE("405 Method Not Allowed", "0", "close", "");

struct connection *connection__new(
        int fd, int epoll, SSL_CTX *context, struct counters *counters, const struct options *options)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	SSL *ssl = SSL_new(context);
	struct epoll_event event = {.data.ptr = connection ? &connection->socket : NULL};

	// Disarmed until a call waits for it: EPOLLONESHOT keeps even EPOLLHUP quiet while a job is paused.
	event.events = EPOLLIN | EPOLLONESHOT;
	if (!connection || !ssl || !SSL_set_fd(ssl, fd) || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
		SSL_free(ssl);
		free(connection);
		close(fd);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	connection->socket = (struct source){connection, false, fd};
	connection->job = (struct source){connection, true, -1};
	connection->ssl = ssl;
	connection->epoll = epoll;
	connection->counters = counters;
	connection->requests_left = options->requests;
	connection->impatient = options->impatient;
	connection->polled = options->poll_ms > 0;
	connection->state = options->lazy ? RECEIVING : HANDSHAKING;
	return connection;
}

static void end(struct connection *connection, bool failed)
{
	connection->state = ENDED;
	if (failed)
		count(&connection->counters->failed);
}

static void wait_for_socket(struct connection *connection, unsigned int events)
{
	struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = &connection->socket};

	connection->waiting = FOR_SOCKET;
	if (epoll_ctl(connection->epoll, EPOLL_CTL_MOD, connection->socket.fd, &event) != 0)
		end(connection, true);
}

// Edge-triggered: each completion is one write to the descriptor, and an engine may leave it readable.
static bool watch(struct connection *connection, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &connection->job};

	return epoll_ctl(connection->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Descriptors stay watched from one pause to the next: OpenSSL reports only what has changed. A closed one leaves epoll by
// itself.
static void wait_for_job(struct connection *connection)
{
	OSSL_ASYNC_FD fds[MAX_WAIT_FDS];
	size_t added, deleted, all = 0;

	if (connection->impatient)
		wait_for_socket(connection, EPOLLRDHUP);
	if (connection->polled) {
		connection->waiting = FOR_RETRY;
		return;
	}
	connection->waiting = FOR_JOB;
	if (!SSL_get_changed_async_fds(connection->ssl, NULL, &added, NULL, &deleted) || added > MAX_WAIT_FDS ||
	        !SSL_get_changed_async_fds(connection->ssl, fds, &added, NULL, &deleted)) {
		connection->waiting = FOR_RETRY;
		return;
	}
	for (size_t i = 0; i < added; i++)
		if (!watch(connection, fds[i]))
			connection->waiting = FOR_RETRY;
	if (!SSL_get_all_async_fds(connection->ssl, NULL, &all) || all == 0)
		connection->waiting = FOR_RETRY;
}

static enum outcome judge(const struct connection *connection, int returned)
{
	switch (SSL_get_error(connection->ssl, returned)) {
	case SSL_ERROR_NONE:
		return SUCCESS;
	case SSL_ERROR_WANT_READ:
		return WANT_READ;
	case SSL_ERROR_WANT_WRITE:
		return WANT_WRITE;
	case SSL_ERROR_WANT_ASYNC:
		return WANT_ASYNC;
	case SSL_ERROR_WANT_ASYNC_JOB:
		return WANT_ASYNC_JOB;
	case SSL_ERROR_ZERO_RETURN:
		return CLOSED;
	default:
		return FAILURE;
	}
}

// Counts how a call ended. False where the connection now waits or has ended.
static bool settle(struct connection *connection, enum call call, int returned)
{
	enum outcome outcome = call == CALL_SHUTDOWN && returned == 0 ? SUCCESS : judge(connection, returned);
	// A peer may go, in whatever way, where it owes nothing more.
	bool at_rest = call == CALL_SHUTDOWN || (call == CALL_READ && connection->received == 0);

	count(&connection->counters->calls[call][outcome]);
	switch (outcome) {
	case SUCCESS:
		return true;
	case WANT_READ:
		wait_for_socket(connection, EPOLLIN);
		break;
	case WANT_WRITE:
		wait_for_socket(connection, EPOLLOUT);
		break;
	case WANT_ASYNC:
		wait_for_job(connection);
		break;
	case WANT_ASYNC_JOB:
		connection->waiting = FOR_RETRY;
		break;
	default:
		end(connection, !at_rest);
	}
	return false;
}

// The handshake, once it is done: it may have been a read that made it.
static void count_handshake(struct connection *connection)
{
	if (connection->counted || !SSL_is_init_finished(connection->ssl))
		return;
	connection->counted = true;
	count(&connection->counters->handshakes);
	if (SSL_session_reused(connection->ssl))
		count(&connection->counters->resumed);
}

static bool shake_hands(struct connection *connection)
{
	if (!settle(connection, CALL_HANDSHAKE, SSL_do_handshake(connection->ssl)))
		return false;
	count_handshake(connection);
	connection->state = RECEIVING;
	return true;
}

static bool wants_more(const char *request)
{
	bool asks_to_keep = strcasestr(request, "\r\nConnection: keep-alive") != NULL;
	bool asks_to_close = strcasestr(request, "\r\nConnection: close") != NULL;

	return asks_to_keep || (!asks_to_close && strstr(request, " HTTP/1.1\r\n"));
}

// Takes a whole request off the buffer; false where there is none yet.
static bool take_request(struct connection *connection)
{
	char *request = connection->request, *rest;

	request[connection->received] = '\0';
	rest = strstr(request, "\r\n\r\n");
	if (!rest)
		return false;
	rest[2] = '\0'; // Each line of the head keeps its end.
	rest += 4;
	connection->keep_alive = --connection->requests_left > 0 && wants_more(request);
	connection->answer = connection->keep_alive ? kept : last;
	if (strncmp(request, "GET ", 4) != 0) {
		connection->keep_alive = false;
		connection->answer = refused;
	}
	connection->received -= rest - request;
	memmove(request, rest, connection->received);
	connection->state = ANSWERING;
	return true;
}

static bool receive(struct connection *connection)
{
	if (take_request(connection))
		return true;
	if (connection->received == MAX_REQUEST) {
		end(connection, true);
		return false;
	}
	char *free_part = connection->request + connection->received;
	int returned = SSL_read(connection->ssl, free_part, MAX_REQUEST - connection->received);
	count_handshake(connection);
	if (!settle(connection, CALL_READ, returned))
		return false;
	connection->received += returned;
	return true;
}

static bool answer(struct connection *connection)
{
	if (!settle(connection, CALL_WRITE, SSL_write(connection->ssl, connection->answer, strlen(connection->answer))))
		return false;
	count(&connection->counters->requests);
	connection->state = connection->keep_alive ? RECEIVING : CLOSING;
	return true;
}

static bool say_goodbye(struct connection *connection)
{
	if (!settle(connection, CALL_SHUTDOWN, SSL_shutdown(connection->ssl)))
		return false;
	end(connection, false);
	return true;
}

void connection__advance(struct connection *connection)
{
	static bool (*const steps[])(struct connection *) = {shake_hands, receive, answer, say_goodbye};

	while (connection->state != ENDED) {
		ERR_clear_error(); // or SSL_get_error would take another connection's error for this one's
		if (!steps[connection->state](connection))
			return;
	}
}

// Its socket is watched for the client's end alone then.
bool connection__is_left(const struct connection *connection, const struct source *source)
{
	return connection->impatient && !source->job && connection->waiting == FOR_JOB && connection->state != ENDED;
}

void connection__leave(struct connection *connection)
{
	end(connection, true);
}

void connection__abandon(struct connection *connection)
{
	if (connection->state != RECEIVING || connection->received)
		count(&connection->counters->abandoned);
	connection->state = ENDED;
}

void connection__free(struct connection *connection)
{
	count(&connection->counters->ended);
	SSL_free(connection->ssl);
	close(connection->socket.fd);
	free(connection);
}
