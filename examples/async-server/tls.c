// SPDX-License-Identifier: Apache-2.0
#include "tls.h"

#include <openssl/async.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

void tls__check(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "async-server: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
        unsigned int offered_length, void *unused)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *found;

	(void)ssl, (void)unused;
	if (SSL_select_next_proto(&found, length, ours, sizeof(ours) - 1, offered, offered_length) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

static void use_key(struct tls *tls, const struct options *options)
{
	tls__check(SSL_CTX_use_certificate_chain_file(tls->context, options->certificate) == 1, options->certificate);
	if (offload__loads_keys(&tls->offload)) {
		EVP_PKEY *key = offload__load_key(&tls->offload, options->key);
		tls__check(key && SSL_CTX_use_PrivateKey(tls->context, key) == 1, options->key);
		EVP_PKEY_free(key);
	} else {
		tls__check(SSL_CTX_use_PrivateKey_file(tls->context, options->key, SSL_FILETYPE_PEM) == 1, options->key);
	}
	tls__check(SSL_CTX_check_private_key(tls->context), "matching key and certificate");
}

static void set_versions(SSL_CTX *context, const struct options *options)
{
	int minimum = options->tls1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
	int maximum = options->tls1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;

	tls__check(SSL_CTX_set_min_proto_version(context, minimum) && SSL_CTX_set_max_proto_version(context, maximum),
	        "TLS version");
}

static void set_resumption(SSL_CTX *context, bool resume)
{
	static const unsigned char name[] = "async-server";

	if (resume) {
		tls__check(SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1), "SSL_CTX_set_session_id_context");
		return;
	}
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	tls__check(SSL_CTX_set_num_tickets(context, 0), "SSL_CTX_set_num_tickets");
}

void tls__new(struct tls *tls, const struct options *options)
{
	*tls = (struct tls){0};
	tls__check(!options->async || ASYNC_is_capable(), "ASYNC_is_capable");
	offload__start(&tls->offload, options);
	tls->context = SSL_CTX_new(TLS_server_method());
	tls__check(tls->context != NULL, "SSL_CTX_new");
	set_versions(tls->context, options);
	set_resumption(tls->context, options->resume);
	if (options->groups)
		tls__check(SSL_CTX_set1_groups_list(tls->context, options->groups), options->groups);
	if (options->async)
		SSL_CTX_set_mode(tls->context, SSL_MODE_ASYNC);
	SSL_CTX_set_alpn_select_cb(tls->context, choose_protocol, NULL);
	use_key(tls, options);
}

void tls__free(struct tls *tls)
{
	SSL_CTX_free(tls->context);
	offload__stop(&tls->offload);
}
