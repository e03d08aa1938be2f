// SPDX-License-Identifier: Apache-2.0
// Server and client in one process whose handshakes wait for a known reason: usage waits CERTIFICATE KEY. It says "ready", then
// for each line "HOW N" makes N handshakes in that way, and says "done". HOW is
//   prompt       nobody takes his time
//   pair         the client takes a nap before its last flight, and no socket tells when that arrived
//   unix         the same over a Unix socket
//   window       the same while the server has more to write than the transport takes
//   application  the server's certificate isn't chosen yet, and the application takes a nap before it calls again
//   unknown      the server's BIO wants something else than to read or write, and the next call comes after a nap
//   work         the server works while it is told of the ClientHello
//   threads      over TCP, each of the server's calls in a thread of its own, which begins late
//   several      shorter naps and less work for four of these reasons
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { NAP_US = 20000, SHORT_NAP_US = 6000, CLIENT_HELLO = 1, SERVER_HELLO = 2 };

// What takes how long in each handshake, in microseconds.
struct plan {
	const char *how;
	long client, application, unknown, work, thread;
	size_t capacity; // of the transport, in bytes; 0: of all that is written
	bool unix_socket;
};
static const struct plan plans[] = {
        {.how = "prompt"},
        {.how = "pair", .client = NAP_US},
        {.how = "unix", .client = NAP_US, .unix_socket = true},
        {.how = "window", .client = NAP_US, .capacity = 512},
        {.how = "application", .application = NAP_US},
        {.how = "unknown", .unknown = NAP_US},
        {.how = "work", .work = NAP_US},
        {.how = "threads", .thread = NAP_US},
        {"several", SHORT_NAP_US, SHORT_NAP_US, SHORT_NAP_US, SHORT_NAP_US / 2, 0, 0, false},
};

static SSL *server, *client;
static struct plan plan;
static bool asked, wanted; // the application was, and the BIO did, in this handshake

static void expect(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "waits: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static int choose_certificate(SSL *ssl, void *nothing)
{
	bool first = ssl == server && plan.application && !asked;

	(void)nothing;
	asked |= first;
	return first ? -1 : 1;
}

static void spin(long microseconds)
{
	struct timespec begun, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < microseconds);
}

static void hear(int sent, int version, int type, const void *data, size_t length, SSL *ssl, void *nothing)
{
	int message = length ? *(const unsigned char *)data : 0;

	(void)version, (void)nothing;
	if (sent || type != SSL3_RT_HANDSHAKE)
		return;
	if (ssl == server && message == CLIENT_HELLO)
		spin(plan.work);
	if (ssl == client && message == SERVER_HELLO && plan.client)
		usleep(plan.client);
}

// The first read of a handshake asks for something else.
static int read_or_want(BIO *bio, char *data, int length)
{
	int number = -1;

	BIO_clear_retry_flags(bio);
	if (wanted) {
		number = BIO_read(BIO_next(bio), data, length);
		BIO_copy_next_retry(bio);
		return number;
	}
	wanted = true;
	BIO_set_retry_special(bio);
	BIO_set_retry_reason(bio, BIO_RR_CONNECT);
	return number;
}

static long pass_on(BIO *bio, int command, long number, void *pointer)
{
	return BIO_ctrl(BIO_next(bio), command, number, pointer);
}

static BIO *wanting(BIO *to)
{
	static BIO_METHOD *method;
	BIO *filter;

	if (!method)
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "wanting");
	filter = method ? BIO_new(method) : NULL;
	expect(filter && BIO_meth_set_read(method, read_or_want) && BIO_meth_set_ctrl(method, pass_on) && BIO_up_ref(to),
	        "BIO_new");
	BIO_set_init(filter, 1);
	return BIO_push(filter, to);
}

// Whether the server's handshake is done. It comes back by itself where it doesn't wait for its client.
static bool serve(void)
{
	for (;;) {
		int result = SSL_accept(server), error = SSL_get_error(server, result);

		if (error == SSL_ERROR_WANT_X509_LOOKUP)
			usleep(plan.application);
		else if (error == SSL_ERROR_WANT_CONNECT)
			usleep(plan.unknown);
		else if (error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
			return error == SSL_ERROR_NONE;
		else
			expect(0, "SSL_accept");
	}
}

// Both sides in turn.
static void take_turns(void)
{
	bool served = false, done = false;

	for (int turn = 0; turn < 20 && !(served && done); turn++) {
		done = done || SSL_connect(client) == 1;
		served = served || serve();
	}
	expect(served && done, "handshake");
}

static void over_unix_socket(void)
{
	int ends[2];

	expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
	expect(SSL_set_fd(client, ends[0]) && SSL_set_fd(server, ends[1]), "SSL_set_fd");
	take_turns();
	close(ends[0]);
	close(ends[1]);
}

static void over_pair(void)
{
	BIO *left, *right;

	expect(BIO_new_bio_pair(&left, plan.capacity, &right, 0), "BIO_new_bio_pair");
	SSL_set_bio(server, left, left);
	SSL_set_bio(client, right, right);
	if (plan.unknown)
		SSL_set0_rbio(server, wanting(left));
	take_turns();
}

static void *ask(void *nothing)
{
	expect(SSL_connect(client) == 1, "SSL_connect");
	return nothing;
}

static void *serve_once(void *done)
{
	*(bool *)done = serve();
	return NULL;
}

static void serve_in_threads(int descriptor)
{
	struct pollfd there = {.fd = descriptor, .events = POLLIN};
	pthread_t thread;
	bool done = false;

	for (int turn = 0; !done; turn++) {
		poll(&there, 1, -1);
		if (turn)
			usleep(plan.thread);
		expect(pthread_create(&thread, NULL, serve_once, &done) == 0, "pthread_create");
		pthread_join(thread, NULL);
	}
}

static void connect_over_tcp(int ends[2])
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *address = (struct sockaddr *)&where;
	socklen_t length = sizeof(where);
	int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	expect(listener >= 0 && bind(listener, address, length) == 0 && listen(listener, 1) == 0, "listen");
	expect(getsockname(listener, address, &length) == 0 && connect(ends[0], address, length) == 0, "connect");
	ends[1] = accept(listener, NULL, NULL);
	expect(ends[1] >= 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "accept");
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	close(listener);
}

static void over_tcp(void)
{
	int ends[2];
	pthread_t asking;

	connect_over_tcp(ends);
	expect(SSL_set_fd(client, ends[0]) && SSL_set_fd(server, ends[1]), "SSL_set_fd");
	expect(pthread_create(&asking, NULL, ask, NULL) == 0, "pthread_create");
	serve_in_threads(ends[1]);
	pthread_join(asking, NULL);
	close(ends[0]);
	close(ends[1]);
}

static void shake_hands(SSL_CTX *context)
{
	asked = wanted = false;
	server = SSL_new(context);
	client = SSL_new(context);
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	if (plan.thread)
		over_tcp();
	else if (plan.unix_socket)
		over_unix_socket();
	else
		over_pair();
	SSL_free(server);
	SSL_free(client);
	ERR_clear_error();
}

static void choose_plan(const char *how)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++) {
		plan = plans[i];
		if (!strcmp(plan.how, how))
			return;
	}
	expect(0, how);
}

int main(int count, char **words)
{
	SSL_CTX *context = SSL_CTX_new(TLS_method());
	char line[64], how[16];
	int number;

	if (count != 3 || SSL_CTX_use_certificate_chain_file(context, words[1]) != 1 ||
	        SSL_CTX_use_PrivateKey_file(context, words[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_cert_cb(context, choose_certificate, NULL);
	SSL_CTX_set_msg_callback(context, hear);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%15s %d", how, &number) == 2) {
		choose_plan(how);
		while (number-- > 0)
			shake_hands(context);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
