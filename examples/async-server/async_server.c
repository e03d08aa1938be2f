// SPDX-License-Identifier: Apache-2.0
// An HTTPS server for trying OpenSSL's async jobs: epoll, SSL_MODE_ASYNC, an engine or a provider if one is named. While that
// has a job's operation in hand the thread serves other connections; the job's wait descriptor is one more in epoll.
//
// It counts its own calls into OpenSSL by how they ended, so that a tracer's counts can be compared with the truth.
#include "loop.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server server;

static int check(int returned, const char *what)
{
	if (returned < 0) {
		perror(what);
		exit(1);
	}
	return returned;
}

static void open_listener(long port)
{
	struct sockaddr_in address = {
	        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	const int yes = 1;

	server.listener = check(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
	check(setsockopt(server.listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), "SO_REUSEADDR");
	check(bind(server.listener, (struct sockaddr *)&address, sizeof(address)), "bind");
	check(listen(server.listener, 4096), "listen");
	check(getsockname(server.listener, (struct sockaddr *)&address, &length), "getsockname");
	printf("port %d\n", ntohs(address.sin_port));
	fflush(stdout);
}

// Before any thread starts: all of them, the engine's too, leave these signals to the first loop.
static void open_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	server.signals = check(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd");
	server.stop = check(eventfd(0, EFD_CLOEXEC), "eventfd");
}

// A connection takes two descriptors: its socket and its job's.
static void allow_descriptors(void)
{
	struct rlimit limit;
	struct options *options = &server.options;

	check(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	long most = ((long)limit.rlim_cur - 64) / 2 / options->threads;
	if (limit.rlim_cur != RLIM_INFINITY && options->connections > most)
		options->connections = most > 1 ? most : 1;
}

static void *run_loop(void *first)
{
	const char *wrong = loop__run(&server, first != NULL);

	if (!wrong)
		return NULL;
	fprintf(stderr, "async-server: %s failed\n", wrong);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static void run_loops(void)
{
	pthread_t *threads = calloc(server.options.threads, sizeof(*threads));

	for (long i = 1; threads && i < server.options.threads; i++)
		check(-pthread_create(&threads[i], NULL, run_loop, NULL), "pthread_create");
	run_loop(&server);
	for (long i = 1; threads && i < server.options.threads; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

int main(int argc, char **argv)
{
	options__parse(&server.options, argc, argv);
	allow_descriptors();
	open_signals();
	tls__new(&server.tls, &server.options);
	open_listener(server.options.port);
	run_loops();
	server__write_report(&server);
	tls__free(&server.tls);
	return 0;
}
