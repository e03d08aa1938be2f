/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server by wolfSSL that blocks, and serves one client after the other: CERTIFICATE KEY [lazy] [reuse]. With
 * "lazy" it leaves handshakes to the first wolfSSL_read; with "reuse" it has one WOLFSSL for all clients, which it clears. It
 * writes its port, and for each connection how its handshake ended, by wolfSSL's own code and functions.
 */
#include <wolfssl/options.h>

#include <wolfssl/ssl.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listening(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) ||
	        getsockname(listener, (struct sockaddr *)&address, &size))
		return -1;
	printf("port %d\n", ntohs(address.sin_port));
	return listener;
}

/* Answers each request until the client has closed; returns how many. */
static int answer_all(WOLFSSL *ssl)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
	const int size = sizeof(answer) - 1;
	char request[4096];
	int requests = 0;

	while (wolfSSL_read(ssl, request, sizeof(request)) > 0) {
		if (wolfSSL_write(ssl, answer, size) != size)
			return -1;
		requests++;
	}
	return requests;
}

static void serve(WOLFSSL *ssl, int client, bool lazy)
{
	bool done;
	int requests = 0;

	wolfSSL_set_fd(ssl, client);
	done = lazy || wolfSSL_accept(ssl) == WOLFSSL_SUCCESS;
	if (done)
		requests = answer_all(ssl);
	if (done && (!lazy || wolfSSL_is_init_finished(ssl)))
		printf("success %s %s %d %d\n", wolfSSL_get_version(ssl), wolfSSL_get_cipher_name(ssl),
		        wolfSSL_session_reused(ssl), requests);
	else
		printf("failure %d\n", wolfSSL_get_error(ssl, -1));
	if (done)
		wolfSSL_shutdown(ssl);
	close(client);
}

int main(int count, char **arguments)
{
	bool lazy = false, reuse = false;
	WOLFSSL_CTX *context;
	WOLFSSL *ssl = NULL;
	int listener, client;

	for (int i = 3; i < count; i++) {
		lazy |= !strcmp(arguments[i], "lazy");
		reuse |= !strcmp(arguments[i], "reuse");
	}

	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	wolfSSL_Init();
	context = wolfSSL_CTX_new(wolfSSLv23_server_method());
	if (count < 3 || wolfSSL_CTX_use_certificate_chain_file(context, arguments[1]) != WOLFSSL_SUCCESS ||
	        wolfSSL_CTX_use_PrivateKey_file(context, arguments[2], WOLFSSL_FILETYPE_PEM) != WOLFSSL_SUCCESS)
		return 2;
	wolfSSL_CTX_SetMinVersion(context, WOLFSSL_TLSV1_2);
	listener = listening();
	while (listener >= 0 && (client = accept(listener, NULL, NULL)) >= 0) {
		if (!ssl)
			ssl = wolfSSL_new(context);
		serve(ssl, client, lazy);
		if (reuse) {
			wolfSSL_clear(ssl);
		} else {
			wolfSSL_free(ssl);
			ssl = NULL;
		}
	}
	return 1;
}
