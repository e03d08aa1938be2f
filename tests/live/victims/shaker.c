// SPDX-License-Identifier: Apache-2.0
// Server and client in one process over a BIO pair: usage shaker CERTIFICATE KEY. It says "ready", then for each line "HOW N"
// makes N connections in that way, and says "done". HOW is
//   accept       SSL_accept and SSL_connect
//   io           SSL_read and SSL_write only
//   renegotiate  TLS 1.2: SSL_do_handshake, then the server asks for another handshake, which SSL_read makes
//   update       TLS 1.3: SSL_do_handshake, then each side renews its keys
//   jump         a callback of the first SSL jumps out of SSL_do_handshake; the next ones are made where that was freed
//   strew        as jump, but without the next one, and each from another depth of the stack
//   again        SSL_clear, and the same two SSLs shake hands once more
//   keep12       TLS 1.2: the server keeps the session by a callback that takes a nap
//   keep13       TLS 1.3: the same, for each of two tickets
//   ticket12     TLS 1.2: two connections of which the second resumes the first, and the server's callback for the keys of
//                tickets takes a nap
//   ticket13     TLS 1.3: the same
//   old12        TLS 1.2: the same by the callback that OpenSSL 3.0 has deprecated
//   old13        TLS 1.3: the same
//   staple       the client asks for a certificate's status, and the server's callback for it takes a nap
//   given        the server asks for a certificate and takes any, and the client has one
//   given12      TLS 1.2: the same
//   lacking      as given, but the client has none
//   lacking12    TLS 1.2: the same
//   listen       opens a socket on which it listens, and which blocks
//   stall        the server's reads come back at once where there is nothing to read, else they take a nap first
//   stale        the client refuses the certificate, and the server's BIO, once it had nothing to read, says so for ever
//   drag         a server over a TCP socket that blocks, whose writes take a nap first
//   begin        a server that waits for its client's first message, and is kept
//   free         of those that are kept, the one that began last is freed
#define OPENSSL_SUPPRESS_DEPRECATED
#include <alloca.h>
#include <netinet/in.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAP_US 20000

static SSL *server, *client, *kept[200000];
static int keeps;
static jmp_buf landing;
static int jumps;

static void fail(const char *what)
{
	fprintf(stderr, "shaker: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static void expect(int fine, const char *what)
{
	if (!fine)
		fail(what);
}

// Both sides in turn, each until it is done.
static void both(int (*serve)(SSL *), int (*ask)(SSL *))
{
	int done = 0;

	for (int turn = 0; turn < 20 && done != 3; turn++) {
		if (!(done & 1) && ask(client) > 0)
			done |= 1;
		if (!(done & 2) && serve(server) > 0)
			done |= 2;
	}
	expect(done == 3, "handshake");
}

static int read_some(SSL *ssl)
{
	char buffer[256];

	return SSL_read(ssl, buffer, sizeof(buffer));
}

static int write_some(SSL *ssl)
{
	return SSL_write(ssl, "hello", 5);
}

static void connect_pair(void)
{
	BIO *left, *right;

	expect(BIO_new_bio_pair(&left, 0, &right, 0), "BIO_new_bio_pair");
	SSL_set_bio(server, left, left);
	SSL_set_bio(client, right, right);
}

static int read_late(BIO *bio, char *data, int length)
{
	int number;

	if (BIO_pending(BIO_next(bio)))
		usleep(NAP_US);
	number = BIO_read(BIO_next(bio), data, length);
	BIO_clear_retry_flags(bio);
	BIO_copy_next_retry(bio);
	return number;
}

static long pass_on(BIO *bio, int command, long number, void *pointer)
{
	return BIO_ctrl(BIO_next(bio), command, number, pointer);
}

static int write_late(BIO *bio, const char *data, int length)
{
	usleep(NAP_US);
	return BIO_write(BIO_next(bio), data, length);
}

// The BIO itself, read and written through these.
static BIO *through(BIO *to, int (*read)(BIO *, char *, int), int (*write)(BIO *, const char *, int))
{
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "through");
	BIO *filter = method ? BIO_new(method) : NULL;

	expect(filter && BIO_meth_set_read(method, read) && BIO_meth_set_write(method, write) &&
	                BIO_meth_set_ctrl(method, pass_on) && BIO_up_ref(to),
	        "BIO_meth_new");
	BIO_set_init(filter, 1);
	return BIO_push(filter, to);
}

// Its reads and writes sleep first.
static BIO *late(BIO *to)
{
	return through(to, read_late, write_late);
}

// The server's transport never blocks, but its reads sleep for a reason of their own.
static void stall(void)
{
	SSL_set0_rbio(server, late(SSL_get_rbio(server)));
	both(SSL_accept, SSL_connect);
}

static int read_stale(BIO *bio, char *data, int length)
{
	int number = BIO_read(BIO_next(bio), data, length);

	if (number <= 0)
		BIO_set_retry_read(bio);
	return number;
}

static int write_through(BIO *bio, const char *data, int length)
{
	return BIO_write(BIO_next(bio), data, length);
}

// SSL_get_error tells the failure by the error queue, whatever the BIO says.
static void refuse(void)
{
	int result = 0, error = SSL_ERROR_WANT_READ;

	SSL_set0_rbio(server, through(SSL_get_rbio(server), read_stale, write_through));
	SSL_set_verify(client, SSL_VERIFY_PEER, NULL);
	for (int turn = 0; turn < 20 && error == SSL_ERROR_WANT_READ; turn++) {
		ERR_clear_error();
		result = SSL_accept(server);
		error = SSL_get_error(server, result);
		ERR_clear_error();
		SSL_connect(client);
	}
	expect(error == SSL_ERROR_SSL, "refusing");
}

static void connect_over_tcp(void)
{
	struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *address = (struct sockaddr *)&where;
	socklen_t length = sizeof(where);
	int listener = socket(AF_INET, SOCK_STREAM, 0), asking = socket(AF_INET, SOCK_STREAM, 0), accepted;

	expect(listener >= 0 && bind(listener, address, length) == 0 && listen(listener, 1) == 0, "listen");
	expect(getsockname(listener, address, &length) == 0 && connect(asking, address, length) == 0, "connect");
	accepted = accept(listener, NULL, NULL);
	expect(accepted >= 0 && SSL_set_fd(client, asking) && SSL_set_fd(server, accepted), "SSL_set_fd");
	close(listener);
}

static void *ask(void *nothing)
{
	expect(SSL_connect(client) == 1, "SSL_connect");
	return nothing;
}

// The server's transport blocks, but its writes sleep for a reason of their own.
static void drag(void)
{
	pthread_t asking;

	connect_over_tcp();
	SSL_set0_wbio(server, late(SSL_get_wbio(server)));
	expect(pthread_create(&asking, NULL, ask, NULL) == 0, "pthread_create");
	expect(SSL_accept(server) == 1, "SSL_accept");
	pthread_join(asking, NULL);
	close(SSL_get_rfd(server));
	close(SSL_get_fd(client));
}

static void start_listening(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	expect(listener >= 0 && listen(listener, 1) == 0, "listen");
}

static void open_pair(SSL_CTX *context)
{
	server = SSL_new(context);
	client = SSL_new(context);
	connect_pair();
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
}

static void close_pair(void)
{
	SSL_free(server);
	SSL_free(client);
}

static void renegotiate(void)
{
	both(SSL_do_handshake, SSL_do_handshake);
	expect(SSL_renegotiate(server) && SSL_do_handshake(server) == 1, "SSL_renegotiate");
	for (int turn = 0; turn < 20 && SSL_num_renegotiations(server) + SSL_renegotiate_pending(server); turn++) {
		read_some(client);
		read_some(server);
	}
	expect(write_some(client) == 5 && read_some(server) == 5, "write and read");
}

static void update(void)
{
	both(SSL_do_handshake, SSL_do_handshake);
	for (int side = 0; side < 2; side++) {
		SSL *from = side ? server : client, *to = side ? client : server;

		expect(SSL_key_update(from, SSL_KEY_UPDATE_REQUESTED), "SSL_key_update");
		expect(write_some(from) == 5 && read_some(to) == 5, "write and read");
		expect(write_some(to) == 5 && read_some(from) == 5, "write and read");
	}
}

static void jump_out(const SSL *ssl, int where, int value)
{
	(void)value;
	if (ssl == server && where & SSL_CB_HANDSHAKE_START && jumps) {
		jumps = 0;
		longjmp(landing, 1);
	}
}

static void jump(SSL_CTX *context)
{
	jumps = 1;
	SSL_set_info_callback(server, jump_out);
	if (!setjmp(landing)) {
		SSL_do_handshake(server);
		fail("jump");
	}
	close_pair();
	open_pair(context);
	both(SSL_do_handshake, SSL_do_handshake);
}

static int call_deeper(size_t bytes)
{
	volatile char *frame = alloca(bytes);

	frame[0] = 0;
	return SSL_do_handshake(server) + frame[0];
}

static void strew(int number)
{
	jumps = 1;
	SSL_set_info_callback(server, jump_out);
	if (!setjmp(landing)) {
		call_deeper(16 * (size_t)(number + 1));
		fail("strew");
	}
}

static void again(void)
{
	both(SSL_do_handshake, SSL_do_handshake);
	SSL_set_shutdown(server, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_set_shutdown(client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	expect(SSL_clear(server) && SSL_clear(client), "SSL_clear");
	connect_pair();
	both(SSL_do_handshake, SSL_do_handshake);
}

static int keep(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	(void)session;
	usleep(NAP_US);
	return 0;
}

static const unsigned char ticket_key[32] = "the key of every ticket, and MAC";

static int start_cipher(unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, int makes)
{
	usleep(NAP_US);
	if (makes) {
		memset(name, 1, 16);
		memset(iv, 2, EVP_MAX_IV_LENGTH);
	}
	return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, ticket_key, iv, makes);
}

#if OPENSSL_VERSION_MAJOR >= 3
static int give_keys(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int makes)
{
	OSSL_PARAM parameters[] = {
	        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)ticket_key, sizeof(ticket_key)),
	        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
	        OSSL_PARAM_construct_end(),
	};

	(void)ssl;
	return start_cipher(name, iv, cipher, makes) && EVP_MAC_CTX_set_params(mac, parameters) ? 1 : -1;
}
#endif

static int give_old_keys(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, HMAC_CTX *mac, int makes)
{
	(void)ssl;
	if (!start_cipher(name, iv, cipher, makes))
		return -1;
	return HMAC_Init_ex(mac, ticket_key, sizeof(ticket_key), EVP_sha256(), NULL) ? 1 : -1;
}

static void resume(SSL_CTX *context)
{
	SSL_SESSION *session;

	both(SSL_accept, SSL_connect);
	read_some(client); // takes the tickets
	session = SSL_get1_session(client);
	SSL_shutdown(client);
	close_pair();
	open_pair(context);
	expect(SSL_set_session(client, session), "SSL_set_session");
	both(SSL_accept, SSL_connect);
	expect(SSL_session_reused(server), "resumption");
	SSL_SESSION_free(session);
}

static int staple(SSL *ssl, void *nothing)
{
	(void)nothing;
	if (ssl == server)
		usleep(NAP_US);
	return SSL_TLSEXT_ERR_NOACK;
}

static int take_any(int fine, X509_STORE_CTX *checked)
{
	(void)fine, (void)checked;
	return 1;
}

// With certificates of both sides, or without one of the client's.
static void both_certified(int given)
{
	SSL_set_verify(server, SSL_VERIFY_PEER, take_any);
	if (!given)
		SSL_certs_clear(client);
	both(SSL_accept, SSL_connect);
}

static void set_up(SSL_CTX *context, const char *how)
{
	int keeps_sessions = !strncmp(how, "keep", 4);
	int old = !strcmp(how, "renegotiate") || strstr(how, "12");

	SSL_CTX_set_max_proto_version(context, old ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_clear_options(context, SSL_OP_NO_TICKET);
	if (keeps_sessions && old)
		SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	SSL_CTX_sess_set_new_cb(context, keeps_sessions ? keep : NULL);
#if OPENSSL_VERSION_MAJOR >= 3
	SSL_CTX_set_tlsext_ticket_key_evp_cb(context, strncmp(how, "ticket", 6) ? NULL : give_keys);
#endif
	SSL_CTX_set_tlsext_ticket_key_cb(context, (strncmp(how, "old", 3) ? NULL : (void (*)(void))give_old_keys));
	SSL_CTX_set_tlsext_status_cb(context, staple);
}

static void begin(SSL_CTX *context)
{
	SSL *ssl = SSL_new(context);

	expect(ssl && keeps < (int)(sizeof(kept) / sizeof(kept[0])), "SSL_new");
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(ssl);
	expect(SSL_get_error(ssl, SSL_do_handshake(ssl)) == SSL_ERROR_WANT_READ, "beginning");
	kept[keeps++] = ssl;
}

static void free_last(void)
{
	expect(keeps > 0, "free");
	SSL_free(kept[--keeps]);
}

static void talk(const char *how, SSL_CTX *context, int number)
{
	if (!strcmp(how, "begin")) {
		begin(context);
		return;
	}
	if (!strcmp(how, "free")) {
		free_last();
		return;
	}
	if (!strcmp(how, "listen")) {
		start_listening();
		return;
	}
	open_pair(context);
	if (!strcmp(how, "staple"))
		SSL_set_tlsext_status_type(client, TLSEXT_STATUSTYPE_ocsp);
	if (!strcmp(how, "accept") || !strncmp(how, "keep", 4) || !strcmp(how, "staple"))
		both(SSL_accept, SSL_connect);
	else if (!strncmp(how, "ticket", 6) || !strncmp(how, "old", 3))
		resume(context);
	else if (!strncmp(how, "given", 5) || !strncmp(how, "lacking", 7))
		both_certified(how[0] == 'g');
	else if (!strcmp(how, "io"))
		both(read_some, write_some);
	else if (!strcmp(how, "renegotiate"))
		renegotiate();
	else if (!strcmp(how, "update"))
		update();
	else if (!strcmp(how, "jump"))
		jump(context);
	else if (!strcmp(how, "strew"))
		strew(number);
	else if (!strcmp(how, "again"))
		again();
	else if (!strcmp(how, "stall"))
		stall();
	else if (!strcmp(how, "stale"))
		refuse();
	else if (!strcmp(how, "drag"))
		drag();
	else
		fail(how);
	close_pair();
	ERR_clear_error();
}

int main(int count, char **words)
{
	SSL_CTX *context = SSL_CTX_new(TLS_method());
	char line[64], how[16];
	int number;

	if (count != 3 || SSL_CTX_use_certificate_chain_file(context, words[1]) != 1 ||
	        SSL_CTX_use_PrivateKey_file(context, words[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%15s %d", how, &number) == 2) {
		set_up(context, how);
		while (number-- > 0)
			talk(how, context, number);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
