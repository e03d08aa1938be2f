// SPDX-License-Identifier: Apache-2.0
#include "tls.h"

#include <openssl/async.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

static void check(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "async-server: %s failed\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static ENGINE *find_engine(const char *name)
{
	if (!strchr(name, '/'))
		return ENGINE_by_id(name);
	ENGINE *engine = ENGINE_by_id("dynamic");
	if (engine && ENGINE_ctrl_cmd_string(engine, "SO_PATH", name, 0) &&
	        ENGINE_ctrl_cmd_string(engine, "LIST_ADD", "1", 0) && ENGINE_ctrl_cmd_string(engine, "LOAD", NULL, 0))
		return engine;
	ENGINE_free(engine);
	return NULL;
}

static void give_command(ENGINE *engine, const char *text)
{
	char *name = strdup(text);
	char *value = strchr(name, ':');

	*value++ = '\0';
	check(ENGINE_ctrl_cmd_string(engine, name, *value ? value : NULL, 0), text);
	free(name);
}

static ENGINE *start_engine(const struct options *options)
{
	ENGINE_load_builtin_engines(); // for "dynamic"
	ENGINE *engine = find_engine(options->engine);
	check(engine != NULL, options->engine);
	for (int i = 0; i < options->control_count; i++)
		give_command(engine, options->controls[i]);
	check(ENGINE_init(engine), "ENGINE_init");
	check(ENGINE_set_default(engine, ENGINE_METHOD_ALL), "ENGINE_set_default");
	return engine;
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
	check(SSL_CTX_use_certificate_chain_file(tls->context, options->certificate) == 1, options->certificate);
	if (options->engine_key) {
		EVP_PKEY *key = ENGINE_load_private_key(tls->engine, options->key, NULL, NULL);
		check(key && SSL_CTX_use_PrivateKey(tls->context, key) == 1, options->key);
		EVP_PKEY_free(key);
	} else {
		check(SSL_CTX_use_PrivateKey_file(tls->context, options->key, SSL_FILETYPE_PEM) == 1, options->key);
	}
	check(SSL_CTX_check_private_key(tls->context), "matching key and certificate");
}

static void set_versions(SSL_CTX *context, const struct options *options)
{
	int minimum = options->tls1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
	int maximum = options->tls1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;

	check(SSL_CTX_set_min_proto_version(context, minimum) && SSL_CTX_set_max_proto_version(context, maximum),
	        "TLS version");
}

static void set_resumption(SSL_CTX *context, bool resume)
{
	static const unsigned char name[] = "async-server";

	if (resume) {
		check(SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1), "SSL_CTX_set_session_id_context");
		return;
	}
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	check(SSL_CTX_set_num_tickets(context, 0), "SSL_CTX_set_num_tickets");
}

void tls__new(struct tls *tls, const struct options *options)
{
	*tls = (struct tls){0};
	check(!options->async || ASYNC_is_capable(), "ASYNC_is_capable");
	if (options->engine)
		tls->engine = start_engine(options);
	tls->context = SSL_CTX_new(TLS_server_method());
	check(tls->context != NULL, "SSL_CTX_new");
	set_versions(tls->context, options);
	set_resumption(tls->context, options->resume);
	if (options->groups)
		check(SSL_CTX_set1_groups_list(tls->context, options->groups), options->groups);
	if (options->async)
		SSL_CTX_set_mode(tls->context, SSL_MODE_ASYNC);
	SSL_CTX_set_alpn_select_cb(tls->context, choose_protocol, NULL);
	use_key(tls, options);
}

// What ENGINE_set_default took is given back, so that the engine ends now, and not in the middle of OpenSSL's own end.
static void stop_engine(ENGINE *engine)
{
	static void (*const unregister[])(ENGINE *) = {ENGINE_unregister_RSA, ENGINE_unregister_DSA, ENGINE_unregister_EC,
	        ENGINE_unregister_DH, ENGINE_unregister_RAND, ENGINE_unregister_ciphers, ENGINE_unregister_digests,
	        ENGINE_unregister_pkey_meths, ENGINE_unregister_pkey_asn1_meths};

	for (size_t i = 0; i < sizeof(unregister) / sizeof(*unregister); i++)
		unregister[i](engine);
	ENGINE_finish(engine);
	ENGINE_free(engine);
}

void tls__free(struct tls *tls)
{
	SSL_CTX_free(tls->context);
	if (tls->engine)
		stop_engine(tls->engine);
}

void tls__write_engine(const struct tls *tls, FILE *out)
{
	BIO *text = BIO_new(BIO_s_mem());
	char *start;

	if (tls->engine && text && ENGINE_ctrl_cmd(tls->engine, "STATS", 0, text, NULL, 1) && BIO_pending(text) > 0) {
		long length = BIO_get_mem_data(text, &start);
		fprintf(out, "%.*s", (int)length, start);
	} else {
		fprintf(out, "null");
	}
	BIO_free(text);
	ERR_clear_error();
}
