// SPDX-License-Identifier: Apache-2.0
// Server and client of QUIC in one process, by OpenSSL 3.5 or later: usage quic CERTIFICATE KEY. It says "ready", then for each
// line "N US HOW" makes N handshakes over UDP, in each of which the server has begun to wait when its client takes a nap of so
// many microseconds, and says "done". HOW is "fine"; "short", the same with a ClientHello of one packet, as it has no key of
// ML-KEM; "distrust", where clients trust nobody; "protocol", where theirs isn't the server's; or "fed", over TCP instead,
// which the server reads itself and hands over through memory. After "N US HOW PORT" clients connect to another server, of
// HTTP/3, and take no nap; after "N US HOW PORT FROM", from that address, to the loopback address of its family. The functions
// that this machine's own headers may not have are declared here.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NO_BLOCK = 1 }; // SSL_ACCEPT_CONNECTION_NO_BLOCK
const SSL_METHOD *OSSL_QUIC_server_method(void);
const SSL_METHOD *OSSL_QUIC_client_method(void);
SSL *SSL_new_listener(SSL_CTX *context, uint64_t flags);
int SSL_listen(SSL *listener);
SSL *SSL_accept_connection(SSL *listener, uint64_t flags);
int SSL_handle_events(SSL *ssl);
int SSL_set_blocking_mode(SSL *ssl, int blocking);
int SSL_set1_initial_peer_addr(SSL *ssl, const BIO_ADDR *peer);

static const unsigned char own[] = {2, 'h', 'q'}, another[] = {2, 'x', 'y'}, http3[] = {2, 'h', '3'};

static void expect(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "quic: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in,
        unsigned int offered, void *nothing)
{
	(void)ssl, (void)nothing;
	if (offered != sizeof(own) || memcmp(in, own, offered) != 0)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = own + 1;
	*length = 2;
	return SSL_TLSEXT_ERR_OK;
}

static int udp_socket(struct sockaddr_in *where, in_addr_t address)
{
	socklen_t length = sizeof(*where);
	int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	*where = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	expect(descriptor >= 0 && bind(descriptor, (struct sockaddr *)where, length) == 0 &&
	                getsockname(descriptor, (struct sockaddr *)where, &length) == 0,
	        "socket");
	return descriptor;
}

static bool is_fine(const char *how)
{
	return strcmp(how, "fine") == 0 || strcmp(how, "short") == 0;
}

/* Whether the handshake is over, as it should be then: done, or else given up. */
static bool is_over(SSL *ssl, bool done)
{
	int returned = SSL_do_handshake(ssl), error = SSL_get_error(ssl, returned);

	expect(returned == 1 || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE || !done, "handshake");
	return returned == 1 ? done : error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
}

static BIO_ADDR *loopback(int family, in_port_t port)
{
	struct in_addr address = {.s_addr = htonl(INADDR_LOOPBACK)};
	const void *where = family == AF_INET ? (const void *)&address : &in6addr_loopback;
	BIO_ADDR *made = BIO_ADDR_new();

	expect(made && BIO_ADDR_rawmake(
	                       made, family, where, family == AF_INET ? sizeof(address) : sizeof(in6addr_loopback), port),
	        "BIO_ADDR_rawmake");
	return made;
}

static int udp_socket_from(const char *from, int family)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	bool is_four = family == AF_INET;
	int descriptor = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	expect(inet_pton(family, from, is_four ? (void *)&four.sin_addr : (void *)&six.sin6_addr) == 1, from);
	expect(descriptor >= 0 && bind(descriptor, is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six,
	                                  is_four ? sizeof(four) : sizeof(six)) == 0,
	        "socket");
	return descriptor;
}

static SSL *new_client(SSL_CTX *clients, int descriptor, BIO_ADDR *peer, const unsigned char *served, const char *how)
{
	const unsigned char *protocol = strcmp(how, "protocol") == 0 ? another : served;
	SSL *client = SSL_new(clients);

	expect(client && peer && SSL_set_fd(client, descriptor), "SSL_set_fd");
	expect(SSL_set_blocking_mode(client, 0) && SSL_set1_initial_peer_addr(client, peer) &&
	                SSL_set_alpn_protos(client, protocol, sizeof(own)) == 0,
	        "client");
	if (strcmp(how, "short") == 0)
		expect(SSL_set1_groups_list(client, "X25519") == 1, "groups");
	SSL_set_verify(client, strcmp(how, "distrust") == 0 ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	BIO_ADDR_free(peer);
	return client;
}

static void connect_to(SSL_CTX *clients, const char *how, int port, const char *from)
{
	int family = strchr(from, ':') ? AF_INET6 : AF_INET, descriptor = udp_socket_from(from, family);
	SSL *client = new_client(clients, descriptor, loopback(family, htons(port)), http3, how);
	int turns = 100000;

	while (turns-- && !is_over(client, is_fine(how)))
		usleep(50);
	expect(turns > 0, "handshake");
	for (turns = 100; turns--; usleep(50)) /* the server hears of the end meanwhile */
		SSL_handle_events(client);
	SSL_shutdown(client);
	SSL_free(client);
	close(descriptor);
	ERR_clear_error();
}

static void shake_hands(SSL_CTX *servers, SSL_CTX *clients, long nap_us, const char *how)
{
	struct sockaddr_in at, from;
	int server_end = udp_socket(&at, INADDR_LOOPBACK), client_end = udp_socket(&from, INADDR_LOOPBACK);
	bool fine = is_fine(how), done = false, served = false;
	SSL *listener = SSL_new_listener(servers, 0), *server = NULL;
	SSL *client = new_client(clients, client_end, loopback(AF_INET, at.sin_port), own, how);

	expect(listener && SSL_set_fd(listener, server_end), "SSL_set_fd");
	expect(SSL_set_blocking_mode(listener, 0) && SSL_listen(listener), "SSL_listen");
	for (int turn = 0; turn < 100000 && !(done && served); turn++) {
		done = done || is_over(client, fine);
		SSL_handle_events(listener);
		if (!server && (server = SSL_accept_connection(listener, NO_BLOCK)))
			SSL_set_blocking_mode(server, 0);
		if (server) {
			served = served || is_over(server, fine);
			if (nap_us)
				usleep(nap_us);
			nap_us = 0;
		}
		usleep(50);
	}
	expect(done && served, "handshake");
	SSL_free(server);
	SSL_free(client);
	SSL_free(listener);
	close(server_end);
	close(client_end);
	ERR_clear_error();
}

/* The two ends of a connection of TCP, neither of which blocks. */
static void connect_ends(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	expect(listener >= 0 && ends[0] >= 0 && bind(listener, (struct sockaddr *)&at, length) == 0 &&
	                listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &length) == 0 &&
	                connect(ends[0], (struct sockaddr *)&at, length) == 0,
	        "connect");
	ends[1] = accept(listener, NULL, NULL);
	expect(ends[1] >= 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "accept");
	close(listener);
}

/* What has come is handed to the server, and what it has to say is sent. Returns whether its handshake is done. */
static bool feed(SSL *server, int end)
{
	char bytes[16384];
	ssize_t size = read(end, bytes, sizeof(bytes));
	bool done;

	if (size <= 0)
		return false;
	expect(BIO_write(SSL_get_rbio(server), bytes, size) == size, "BIO_write");
	done = is_over(server, true);
	while ((size = BIO_read(SSL_get_wbio(server), bytes, sizeof(bytes))) > 0)
		expect(write(end, bytes, size) == size, "write");
	return done;
}

static void shake_hands_over_tcp(SSL_CTX *servers, SSL_CTX *clients)
{
	SSL *server = SSL_new(servers), *client = SSL_new(clients);
	bool done = false, served = false;
	int ends[2], turns = 100000;

	connect_ends(ends);
	expect(server && client && SSL_set_fd(client, ends[0]), "SSL_set_fd");
	SSL_set_bio(server, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	for (; turns && !(done && served); turns--) {
		done = done || is_over(client, true);
		served = served || feed(server, ends[1]);
		usleep(50);
	}
	expect(turns, "handshake");
	SSL_free(server);
	SSL_free(client);
	close(ends[0]);
	close(ends[1]);
}

int main(int count, char **words)
{
	SSL_CTX *tcp_servers = SSL_CTX_new(TLS_server_method()), *tcp_clients = SSL_CTX_new(TLS_client_method());
	SSL_CTX *servers = SSL_CTX_new(OSSL_QUIC_server_method()), *clients = SSL_CTX_new(OSSL_QUIC_client_method());
	char line[128], how[16], from[64];
	int number, port;
	long nap_us;

	if (count != 3 || SSL_CTX_use_certificate_chain_file(servers, words[1]) != 1 ||
	        SSL_CTX_use_PrivateKey_file(servers, words[2], SSL_FILETYPE_PEM) != 1 ||
	        SSL_CTX_use_certificate_chain_file(tcp_servers, words[1]) != 1 ||
	        SSL_CTX_use_PrivateKey_file(tcp_servers, words[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_alpn_select_cb(servers, choose_protocol, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int words = sscanf(line, "%d %ld %15s %d %63s", &number, &nap_us, how, &port, from);

		if (words < 3)
			return 2;
		while (number-- > 0)
			if (strcmp(how, "fed") == 0)
				shake_hands_over_tcp(tcp_servers, tcp_clients);
			else
				words >= 4 ? connect_to(clients, how, port, words == 5 ? from : "0.0.0.0")
				           : shake_hands(servers, clients, nap_us, how);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
