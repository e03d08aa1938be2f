// SPDX-License-Identifier: Apache-2.0
// Makes handshakes with itself in an odd way: usage odd WAY CERTIFICATE KEY. It prints "ready", does it once it has read a
// line, and then prints how many handshakes of clients have succeeded and how many were given up, how many of servers, and how
// many of its calls that make one have succeeded, and how many were to be made again. It ends with its input. WAY:
//   cleared  servers whose connection is cleared for each next client, once in a handshake that waits, and once with a read
//            that does
//   torn     threads that are ended within a call; who frees their connections makes others where these lay
//   jumped   callbacks that jump out of a call, in whose place on the stack another connection's call comes next
//   again    calls on connections whose handshake is over
//   nested   callbacks that make whole handshakes, in which callbacks do as well
//   threads  threads whose transport takes and gives a few bytes at a time, or none, and which give up at random
// Compiled with LIBRARY_*.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	TIMES = 4,
	THREADS = 4,
	GIVEN_UP_OF_THREAD = 20,
	MOST_CALLS = 1000,
	MOST_CALLS_OF_GIVEN_UP = 40,
	NESTED = 2,
};

enum result { DONE, AGAIN, FAILED };

/* One side of a connection. `hook` is called before its transport reads. */
struct end {
	void *connection;
	int socket, calls;
	bool server, over, in_pieces, in_hook;
	void (*hook)(struct end *end);
};

static const char *certificate_file, *key_file;
static __thread unsigned int seed;
static unsigned long succeeded[2], given_up[2], calls_done, calls_again; /* of clients, of servers */

static void must(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "odd: %s\n", what);
		exit(1);
	}
}

static size_t piece_of(const struct end *end, size_t size)
{
	if (!end->in_pieces || !size)
		return size;
	return rand_r(&seed) % 3 ? 1 + rand_r(&seed) % size : 0;
}

static ssize_t take(struct end *end, void *bytes, size_t size)
{
	size_t piece;

	if (end->hook && !end->in_hook) {
		end->in_hook = true;
		end->hook(end);
		end->in_hook = false;
	}
	piece = piece_of(end, size);
	errno = EAGAIN;
	return piece ? recv(end->socket, bytes, piece, 0) : -1;
}

static ssize_t give(struct end *end, const void *bytes, size_t size)
{
	size_t piece = piece_of(end, size);

	errno = EAGAIN;
	return piece ? send(end->socket, bytes, piece, MSG_NOSIGNAL) : -1;
}

/* Of each library: initialize(), connect_to_transport(), make(), clear(), destroy(), shake_hands() and wait_in_read(). */

#ifdef LIBRARY_WOLFSSL
#include <wolfssl/options.h>

#include <wolfssl/ssl.h>

static WOLFSSL_CTX *contexts[2];

static int take_for(WOLFSSL *ssl, char *bytes, int size, void *end)
{
	ssize_t taken = take(end, bytes, size);

	(void)ssl;
	return taken > 0 ? taken : taken ? WOLFSSL_CBIO_ERR_WANT_READ : WOLFSSL_CBIO_ERR_CONN_CLOSE;
}

static int give_for(WOLFSSL *ssl, char *bytes, int size, void *end)
{
	ssize_t given = give(end, bytes, size);

	(void)ssl;
	return given < 0 ? WOLFSSL_CBIO_ERR_WANT_WRITE : given;
}

static void initialize(void)
{
	wolfSSL_Init();
	contexts[0] = wolfSSL_CTX_new(wolfTLSv1_2_client_method());
	contexts[1] = wolfSSL_CTX_new(wolfTLSv1_2_server_method());
	for (int side = 0; side < 2; side++) {
		wolfSSL_CTX_set_verify(contexts[side], WOLFSSL_VERIFY_NONE, NULL);
		wolfSSL_CTX_SetIORecv(contexts[side], take_for);
		wolfSSL_CTX_SetIOSend(contexts[side], give_for);
	}
	must(wolfSSL_CTX_use_certificate_chain_file(contexts[1], certificate_file) == WOLFSSL_SUCCESS, "certificate");
	must(wolfSSL_CTX_use_PrivateKey_file(contexts[1], key_file, WOLFSSL_FILETYPE_PEM) == WOLFSSL_SUCCESS, "key");
}

static void connect_to_transport(struct end *end)
{
	wolfSSL_SetIOReadCtx(end->connection, end);
	wolfSSL_SetIOWriteCtx(end->connection, end);
}

static void make(struct end *end)
{
	end->connection = wolfSSL_new(contexts[end->server]);
	connect_to_transport(end);
}

static void clear(struct end *end)
{
	wolfSSL_clear(end->connection);
}

static void destroy(struct end *end)
{
	wolfSSL_free(end->connection);
}

static enum result shake_hands(struct end *end)
{
	int result = end->server ? wolfSSL_accept(end->connection) : wolfSSL_connect(end->connection);
	int error = wolfSSL_get_error(end->connection, result);

	if (result == WOLFSSL_SUCCESS)
		return DONE;
	return error == WOLFSSL_ERROR_WANT_READ || error == WOLFSSL_ERROR_WANT_WRITE ? AGAIN : FAILED;
}

static void wait_in_read(struct end *end)
{
	char byte;

	wolfSSL_read(end->connection, &byte, 1);
}
#endif

#ifdef LIBRARY_MBEDTLS
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>

static mbedtls_ssl_config configurations[2];
static mbedtls_ctr_drbg_context random_numbers;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int draw(void *context, unsigned char *bytes, size_t size)
{
	int result;

	pthread_mutex_lock(&one_at_a_time);
	result = mbedtls_ctr_drbg_random(context, bytes, size);
	pthread_mutex_unlock(&one_at_a_time);
	return result;
}

static int take_for(void *end, unsigned char *bytes, size_t size)
{
	ssize_t taken = take(end, bytes, size);

	return taken < 0 ? MBEDTLS_ERR_SSL_WANT_READ : taken;
}

static int give_for(void *end, const unsigned char *bytes, size_t size)
{
	ssize_t given = give(end, bytes, size);

	return given < 0 ? MBEDTLS_ERR_SSL_WANT_WRITE : given;
}

static void initialize(void)
{
	static mbedtls_entropy_context entropy;
	static mbedtls_x509_crt certificate;
	static mbedtls_pk_context key;

	mbedtls_entropy_init(&entropy);
	mbedtls_ctr_drbg_init(&random_numbers);
	mbedtls_x509_crt_init(&certificate);
	mbedtls_pk_init(&key);
	must(!mbedtls_ctr_drbg_seed(&random_numbers, mbedtls_entropy_func, &entropy, NULL, 0), "seed");
	must(!mbedtls_x509_crt_parse_file(&certificate, certificate_file), "certificate");
	must(!mbedtls_pk_parse_keyfile(&key, key_file, NULL), "key");
	for (int side = 0; side < 2; side++) {
		mbedtls_ssl_config_init(&configurations[side]);
		mbedtls_ssl_config_defaults(&configurations[side], side ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
		        MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
		mbedtls_ssl_conf_rng(&configurations[side], draw, &random_numbers);
		mbedtls_ssl_conf_authmode(&configurations[side], MBEDTLS_SSL_VERIFY_NONE);
	}
	must(!mbedtls_ssl_conf_own_cert(&configurations[1], &certificate, &key), "own certificate");
}

static void connect_to_transport(struct end *end)
{
	mbedtls_ssl_set_bio(end->connection, end, give_for, take_for, NULL);
}

static void make(struct end *end)
{
	end->connection = malloc(sizeof(mbedtls_ssl_context));
	mbedtls_ssl_init(end->connection);
	must(!mbedtls_ssl_setup(end->connection, &configurations[end->server]), "context");
	connect_to_transport(end);
}

static void clear(struct end *end)
{
	mbedtls_ssl_session_reset(end->connection);
}

static void destroy(struct end *end)
{
	mbedtls_ssl_free(end->connection);
	free(end->connection);
}

static enum result shake_hands(struct end *end)
{
	int result = mbedtls_ssl_handshake(end->connection);

	if (!result)
		return DONE;
	return result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE ? AGAIN : FAILED;
}

static void wait_in_read(struct end *end)
{
	unsigned char byte;

	mbedtls_ssl_read(end->connection, &byte, 1);
}
#endif

#ifdef LIBRARY_GNUTLS
/* Of gnutls/gnutls.h, which isn't everywhere where the library is. */
typedef ssize_t (*transport_function)(void *end, void *bytes, size_t size);
int gnutls_init(void **session, unsigned int flags);
void gnutls_deinit(void *session);
int gnutls_handshake(void *session);
int gnutls_set_default_priority(void *session);
int gnutls_certificate_allocate_credentials(void **credentials);
int gnutls_certificate_set_x509_key_file(void *credentials, const char *certificate, const char *key, int format);
int gnutls_credentials_set(void *session, int type, void *credentials);
void gnutls_transport_set_ptr(void *session, void *end);
void gnutls_transport_set_pull_function(void *session, transport_function function);
void gnutls_transport_set_push_function(void *session, ssize_t (*function)(void *end, const void *bytes, size_t size));
void gnutls_transport_set_errno(void *session, int error);
ssize_t gnutls_record_recv(void *session, void *bytes, size_t size);

enum {
	GNUTLS_SERVER = 1,
	GNUTLS_CLIENT = 2,
	GNUTLS_NONBLOCK = 8,
	GNUTLS_PEM = 1,
	GNUTLS_CERTIFICATE = 1,
	GNUTLS_AGAIN = -28,
};

static void *credentials[2];

static ssize_t take_for(void *of, void *bytes, size_t size)
{
	struct end *end = of;
	ssize_t taken = take(end, bytes, size);

	gnutls_transport_set_errno(end->connection, taken < 0 ? EAGAIN : 0);
	return taken;
}

static ssize_t give_for(void *of, const void *bytes, size_t size)
{
	struct end *end = of;
	ssize_t given = give(end, bytes, size);

	gnutls_transport_set_errno(end->connection, given < 0 ? EAGAIN : 0);
	return given;
}

static void initialize(void)
{
	for (int side = 0; side < 2; side++)
		must(!gnutls_certificate_allocate_credentials(&credentials[side]), "credentials");
	must(gnutls_certificate_set_x509_key_file(credentials[1], certificate_file, key_file, GNUTLS_PEM) >= 0, "key");
}

static void connect_to_transport(struct end *end)
{
	gnutls_transport_set_ptr(end->connection, end);
	gnutls_transport_set_pull_function(end->connection, take_for);
	gnutls_transport_set_push_function(end->connection, give_for);
}

static void make(struct end *end)
{
	must(!gnutls_init(&end->connection, (end->server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK), "session");
	gnutls_set_default_priority(end->connection);
	gnutls_credentials_set(end->connection, GNUTLS_CERTIFICATE, credentials[end->server]);
	connect_to_transport(end);
}

static void destroy(struct end *end)
{
	gnutls_deinit(end->connection);
}

static void clear(struct end *end) /* it has nothing to clear one with */
{
	destroy(end);
	make(end);
}

static enum result shake_hands(struct end *end)
{
	int result = gnutls_handshake(end->connection);

	return !result ? DONE : result == GNUTLS_AGAIN ? AGAIN : FAILED;
}

static void wait_in_read(struct end *end)
{
	char byte;

	gnutls_record_recv(end->connection, &byte, 1);
}
#endif

/* Counts after the call: one that doesn't come back counts nowhere. */
static enum result shake(struct end *end)
{
	enum result result = shake_hands(end);

	must(result != FAILED, "a handshake has failed");
	end->calls++;
	__sync_fetch_and_add(result == DONE ? &calls_done : &calls_again, 1);
	if (result == DONE && !end->over) {
		end->over = true;
		__sync_fetch_and_add(&succeeded[end->server], 1);
	}
	return result;
}

static void pair_up(struct end *server, struct end *client)
{
	int sockets[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), "sockets");
	server->socket = sockets[0];
	server->server = true;
	client->socket = sockets[1];
}

static void begin(struct end *server, struct end *client)
{
	pair_up(server, client);
	make(server);
	make(client);
}

/* Frees it, with a handshake that has begun, or of which the first call didn't come back, or that is over. */
static void end_one(struct end *end)
{
	if (!end->over)
		__sync_fetch_and_add(&given_up[end->server], 1);
	destroy(end);
	close(end->socket);
}

static void finish(struct end *server, struct end *client)
{
	end_one(server);
	end_one(client);
}

static void pump(struct end *server, struct end *client, int most)
{
	for (int call = 0; call < most && !(server->over && client->over); call++) {
		if (!client->over)
			shake(client);
		if (!server->over)
			shake(server);
	}
}

static void whole(void)
{
	struct end server = {0}, client = {0};

	begin(&server, &client);
	pump(&server, &client, MOST_CALLS);
	must(server.over && client.over, "a handshake isn't over");
	finish(&server, &client);
}

static void clear_each_time(void)
{
	struct end server = {0}, client = {0};

	pair_up(&server, &client);
	make(&server);
	for (int time = 0; time < TIMES; time++) {
		client.over = server.over = false;
		shake(&server);
		given_up[true]++;
		clear(&server);
		connect_to_transport(&server);
		make(&client);
		pump(&server, &client, MOST_CALLS);
		wait_in_read(&server);
		end_one(&client);
		close(server.socket);
		pair_up(&server, &client);
		clear(&server);
		connect_to_transport(&server);
	}
	close(client.socket);
	end_one(&server);
}

static sem_t is_within;

static void stay(struct end *end)
{
	(void)end;
	sem_post(&is_within);
	for (;;)
		pause();
}

static void *shake_and_stay(void *end)
{
	shake_hands(end);
	return NULL;
}

static void tear(void)
{
	sem_init(&is_within, 0, 0);
	for (int time = 0; time < TIMES; time++) {
		struct end server = {.hook = stay}, client = {0};
		pthread_t thread;

		begin(&server, &client);
		shake(&client);
		must(!pthread_create(&thread, NULL, shake_and_stay, &server), "thread");
		sem_wait(&is_within);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		finish(&server, &client);
		whole();
	}
}

static jmp_buf outside;

static void jump(struct end *end)
{
	end->hook = NULL;
	longjmp(outside, 1);
}

static __attribute__((noinline)) void shake_or_jump(struct end *end)
{
	if (!setjmp(outside))
		shake(end);
}

static void jump_out(void)
{
	for (int time = 0; time < TIMES; time++) {
		struct end server = {.hook = jump}, client = {0}, other = {0}, others_client = {0};

		begin(&server, &client);
		begin(&other, &others_client);
		shake(&client);
		shake_or_jump(&server);
		shake_or_jump(&other);
		pump(&other, &others_client, MOST_CALLS);
		finish(&other, &others_client);
		finish(&server, &client);
	}
}

static void call_again(void)
{
	for (int time = 0; time < TIMES; time++) {
		struct end server = {0}, client = {0};

		begin(&server, &client);
		pump(&server, &client, MOST_CALLS);
		for (int more = 0; more < TIMES; more++) {
			shake(&server);
			shake(&client);
		}
		finish(&server, &client);
	}
}

static int nested;

static void nest(struct end *end);

static void whole_with_others_inside(void)
{
	struct end server = {.hook = nest}, client = {0};

	begin(&server, &client);
	pump(&server, &client, MOST_CALLS);
	finish(&server, &client);
}

static void nest(struct end *end)
{
	(void)end;
	if (nested == NESTED)
		return;
	nested++;
	whole_with_others_inside();
	nested--;
}

static void *give_up_at_random(void *number)
{
	seed = *(unsigned int *)number;
	for (int time = 0; time < GIVEN_UP_OF_THREAD; time++) {
		struct end server = {.in_pieces = true}, client = {.in_pieces = true};

		begin(&server, &client);
		pump(&server, &client, 1 + rand_r(&seed) % MOST_CALLS_OF_GIVEN_UP);
		finish(&server, &client);
	}
	return NULL;
}

static void run_threads(void)
{
	unsigned int numbers[THREADS];
	pthread_t threads[THREADS];

	for (unsigned int thread = 0; thread < THREADS; thread++) {
		numbers[thread] = thread + 1;
		must(!pthread_create(&threads[thread], NULL, give_up_at_random, &numbers[thread]), "thread");
	}
	for (int thread = 0; thread < THREADS; thread++)
		pthread_join(threads[thread], NULL);
}

static void do_it(const char *way)
{
	if (!strcmp(way, "cleared"))
		clear_each_time();
	else if (!strcmp(way, "torn"))
		tear();
	else if (!strcmp(way, "jumped"))
		jump_out();
	else if (!strcmp(way, "again"))
		call_again();
	else if (!strcmp(way, "nested"))
		whole_with_others_inside();
	else
		run_threads();
}

int main(int count, char **words)
{
	char line[16];

	must(count == 4, "usage: odd WAY CERTIFICATE KEY");
	certificate_file = words[2];
	key_file = words[3];
	initialize();
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	do_it(words[1]);
	printf("%lu %lu %lu %lu %lu %lu\n", succeeded[0], given_up[0], succeeded[1], given_up[1], calls_done, calls_again);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
