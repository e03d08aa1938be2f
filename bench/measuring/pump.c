// SPDX-License-Identifier: Apache-2.0
// A TLS 1.3 server and its client in one process, over a BIO pair: what a traced SSL_read and SSL_write cost.
//
// Each turn is one SSL_read and one SSL_write of 64 bytes by the server. The client's side goes through the SSL BIO, which
// calls neither of the two, so every call that a tracer sees is one of the server's, and an unfiltered tracer and one that
// tells servers from clients see the same calls. No file, no socket, no system call but the clock's, before
// and after.
//
// Protocol: prints "ready PID"; for each line "run N" does N turns and prints the nanoseconds of CPU time that they took; ends
// with its input. "pump THREADS": so many threads, each with a connection and a CPU of its own, do N turns each at a time.
#define _GNU_SOURCE
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 64, MOST_THREADS = 64 };

struct connection {
	pthread_t thread;
	SSL *server;
	BIO *client;
	long turns;
};

static void check(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "pump: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static void self_signed(SSL_CTX *context)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	check(key && certificate, "making a key");
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
	check(X509_set_pubkey(certificate, key) && X509_sign(certificate, key, EVP_sha256()), "making a certificate");
	check(SSL_CTX_use_certificate(context, certificate) == 1, "SSL_CTX_use_certificate");
	check(SSL_CTX_use_PrivateKey(context, key) == 1, "SSL_CTX_use_PrivateKey");
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static SSL *new_ssl(const SSL_METHOD *method, BIO *transport, int is_server)
{
	SSL_CTX *context = SSL_CTX_new(method);

	check(context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), "SSL_CTX_new");
	check(SSL_CTX_set_num_tickets(context, 0), "SSL_CTX_set_num_tickets");
	if (is_server)
		self_signed(context);
	SSL *ssl = SSL_new(context);
	check(ssl != NULL, "SSL_new");
	SSL_set_bio(ssl, transport, transport);
	SSL_CTX_free(context);
	return ssl;
}

static void handshake(SSL *server, SSL *client)
{
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	for (int turn = 0; SSL_in_init(server) || SSL_in_init(client); turn++) {
		check(turn < 10, "the handshake");
		SSL_do_handshake(client);
		SSL_do_handshake(server);
	}
	ERR_clear_error();
}

static void one_turn(SSL *server, BIO *client)
{
	static const char message[MESSAGE] = "a request, or the answer to one";
	char buffer[MESSAGE];

	check(BIO_write(client, message, MESSAGE) == MESSAGE, "the client's write");
	check(SSL_read(server, buffer, MESSAGE) == MESSAGE, "SSL_read");
	check(SSL_write(server, message, MESSAGE) == MESSAGE, "SSL_write");
	check(BIO_read(client, buffer, MESSAGE) == MESSAGE, "the client's read");
}

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void *take_turns(void *argument)
{
	struct connection *connection = argument;

	for (long turn = 0; turn < connection->turns; turn++)
		one_turn(connection->server, connection->client);
	return NULL;
}

static int64_t run(struct connection *connections, int threads, long turns)
{
	int64_t started = cpu_ns();

	for (int i = 0; i < threads; i++)
		connections[i].turns = turns;
	if (threads == 1) {
		take_turns(connections);
		return cpu_ns() - started;
	}
	for (int i = 0; i < threads; i++) {
		pthread_attr_t attributes;
		cpu_set_t cpu;

		CPU_ZERO(&cpu);
		CPU_SET(i, &cpu);
		pthread_attr_init(&attributes);
		check(!pthread_attr_setaffinity_np(&attributes, sizeof(cpu), &cpu), "choosing a CPU");
		check(!pthread_create(&connections[i].thread, &attributes, take_turns, &connections[i]), "pthread_create");
		pthread_attr_destroy(&attributes);
	}
	for (int i = 0; i < threads; i++)
		check(!pthread_join(connections[i].thread, NULL), "pthread_join");
	return cpu_ns() - started;
}

static void connect_pair(struct connection *connection)
{
	BIO *server_end, *client_end;

	check(BIO_new_bio_pair(&server_end, 0, &client_end, 0), "BIO_new_bio_pair");
	connection->server = new_ssl(TLS_server_method(), server_end, 1);
	connection->client = BIO_new(BIO_f_ssl());
	SSL *client = new_ssl(TLS_client_method(), client_end, 0);
	handshake(connection->server, client);
	BIO_set_ssl(connection->client, client, BIO_CLOSE);
}

int main(int argc, char **argv)
{
	struct connection connections[MOST_THREADS];
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	long turns;

	check(threads >= 1 && threads <= MOST_THREADS, "the number of threads");
	for (int i = 0; i < threads; i++)
		connect_pair(&connections[i]);
	printf("ready %ld\n", (long)getpid());
	fflush(stdout);
	while (scanf(" run %ld", &turns) == 1) {
		printf("%" PRId64 "\n", run(connections, threads, turns));
		fflush(stdout);
	}
	for (int i = 0; i < threads; i++) {
		BIO_free(connections[i].client);
		SSL_free(connections[i].server);
	}
	return 0;
}
