// SPDX-License-Identifier: Apache-2.0
// A server and its client in one process on whatever libssl is named: usage old_openssl LIBSSL LIBCRYPTO CERTIFICATE KEY. It
// says "ready", then for each line "N" makes N connections over BIO pairs, sends 256 bytes over each, and says "done".
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// What openssl/ssl.h and openssl/bio.h declare, the same in 1.1.1 and 3.x; only pointers are passed.
static void *(*TLS_method)(void);
static void *(*SSL_CTX_new)(void *);
static int (*SSL_CTX_use_certificate_file)(void *, const char *, int);
static int (*SSL_CTX_use_PrivateKey_file)(void *, const char *, int);
static void *(*SSL_new)(void *);
static void (*SSL_free)(void *);
static void (*SSL_set_bio)(void *, void *, void *);
static void (*SSL_set_accept_state)(void *);
static void (*SSL_set_connect_state)(void *);
static int (*SSL_do_handshake)(void *);
static int (*SSL_write)(void *, const void *, int);
static int (*SSL_read)(void *, void *, int);
static int (*BIO_new_bio_pair)(void **, size_t, void **, size_t);

static void *named(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "old_openssl: no %s\n", name);
		exit(1);
	}
	return found;
}

static void load(const char *libssl, const char *libcrypto)
{
	void *crypto = dlopen(libcrypto, RTLD_NOW | RTLD_GLOBAL), *ssl = dlopen(libssl, RTLD_NOW | RTLD_GLOBAL);

	if (!crypto || !ssl) {
		fprintf(stderr, "old_openssl: %s\n", dlerror());
		exit(1);
	}
#define FIND(library, name) *(void **)&name = named(library, #name)
	FIND(ssl, TLS_method);
	FIND(ssl, SSL_CTX_new);
	FIND(ssl, SSL_CTX_use_certificate_file);
	FIND(ssl, SSL_CTX_use_PrivateKey_file);
	FIND(ssl, SSL_new);
	FIND(ssl, SSL_free);
	FIND(ssl, SSL_set_bio);
	FIND(ssl, SSL_set_accept_state);
	FIND(ssl, SSL_set_connect_state);
	FIND(ssl, SSL_do_handshake);
	FIND(ssl, SSL_write);
	FIND(ssl, SSL_read);
	FIND(crypto, BIO_new_bio_pair);
}

static void talk(void *context)
{
	void *server = SSL_new(context), *client = SSL_new(context), *left, *right;
	char buffer[1024] = {0};
	int done = 0;

	BIO_new_bio_pair(&left, 0, &right, 0);
	SSL_set_bio(server, left, left);
	SSL_set_bio(client, right, right);
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	for (int turn = 0; turn < 20 && done != 3; turn++) {
		if (!(done & 1) && SSL_do_handshake(client) == 1)
			done |= 1;
		if (!(done & 2) && SSL_do_handshake(server) == 1)
			done |= 2;
	}
	if (done != 3 || SSL_write(client, buffer, 256) != 256 || SSL_read(server, buffer, sizeof(buffer)) != 256) {
		fprintf(stderr, "old_openssl: the connection failed\n");
		exit(1);
	}
	SSL_free(server);
	SSL_free(client);
}

int main(int count, char **words)
{
	void *context;
	char line[32];

	if (count != 5)
		return 2;
	load(words[1], words[2]);
	context = SSL_CTX_new(TLS_method());
	if (SSL_CTX_use_certificate_file(context, words[3], 1) != 1 || SSL_CTX_use_PrivateKey_file(context, words[4], 1) != 1)
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = atoi(line); i > 0; i--)
			talk(context);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
