// SPDX-License-Identifier: Apache-2.0
#include "tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#ifndef OPENSSL_NO_ENGINE
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
	tls__check(ENGINE_ctrl_cmd_string(engine, name, *value ? value : NULL, 0), text);
	free(name);
}

static ENGINE *start_engine(const struct options *options)
{
	ENGINE_load_builtin_engines(); // for "dynamic"
	ENGINE *engine = find_engine(options->engine);
	tls__check(engine != NULL, options->engine);
	for (int i = 0; i < options->control_count; i++)
		give_command(engine, options->controls[i]);
	tls__check(ENGINE_init(engine), "ENGINE_init");
	tls__check(ENGINE_set_default(engine, ENGINE_METHOD_ALL), "ENGINE_set_default");
	return engine;
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

static EVP_PKEY *load_engine_key(ENGINE *engine, const char *file)
{
	return ENGINE_load_private_key(engine, file, NULL, NULL);
}

static bool get_engine_stats(ENGINE *engine, BIO *text)
{
	return ENGINE_ctrl_cmd(engine, "STATS", 0, text, NULL, 1);
}
#else
static ENGINE *start_engine(const struct options *options)
{
	tls__check(0, options->engine); // this OpenSSL has no engines
	return NULL;
}

static void stop_engine(ENGINE *engine)
{
	(void)engine;
}

static EVP_PKEY *load_engine_key(ENGINE *engine, const char *file)
{
	(void)engine, (void)file;
	return NULL;
}

static bool get_engine_stats(ENGINE *engine, BIO *text)
{
	(void)engine, (void)text;
	return false;
}
#endif

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
// Beside the default provider, which is no longer there by itself once another one is loaded.
static OSSL_PROVIDER *start_provider(const struct options *options)
{
	tls__check(OSSL_PROVIDER_load(NULL, "default") != NULL, "the default provider");
	OSSL_PROVIDER *provider = OSSL_PROVIDER_load(NULL, options->provider);
	tls__check(provider != NULL, options->provider);
	return provider;
}

static void stop_provider(OSSL_PROVIDER *provider)
{
	OSSL_PROVIDER_unload(provider);
}

// The key alone is the provider's, so that key exchanges are done as ever.
static EVP_PKEY *given_to_provider(const EVP_PKEY *key)
{
	EVP_PKEY_CTX *making = EVP_PKEY_CTX_new_from_name(NULL, EVP_PKEY_get0_type_name(key), "provider!=default");
	EVP_PKEY *made = NULL;
	OSSL_PARAM *params = NULL;

	if (!making || EVP_PKEY_fromdata_init(making) != 1 || EVP_PKEY_todata(key, EVP_PKEY_KEYPAIR, &params) != 1 ||
	        EVP_PKEY_fromdata(making, &made, EVP_PKEY_KEYPAIR, params) != 1)
		made = NULL;
	OSSL_PARAM_free(params);
	EVP_PKEY_CTX_free(making);
	return made;
}

static EVP_PKEY *load_provider_key(const char *file)
{
	BIO *in = BIO_new_file(file, "r");
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
	EVP_PKEY *made = key ? given_to_provider(key) : NULL;

	EVP_PKEY_free(key);
	BIO_free(in);
	return made;
}

static bool get_provider_stats(OSSL_PROVIDER *provider, BIO *text)
{
	char stats[1024] = "";
	OSSL_PARAM params[] = {
	        {"offload-stats", OSSL_PARAM_UTF8_STRING, stats, sizeof(stats), OSSL_PARAM_UNMODIFIED}, {NULL, 0, NULL, 0, 0}};

	return OSSL_PROVIDER_get_params(provider, params) && BIO_puts(text, stats) > 0;
}
#else
static OSSL_PROVIDER *start_provider(const struct options *options)
{
	tls__check(0, options->provider); // this OpenSSL has no providers
	return NULL;
}

static void stop_provider(OSSL_PROVIDER *provider)
{
	(void)provider;
}

static EVP_PKEY *load_provider_key(const char *file)
{
	(void)file;
	return NULL;
}

static bool get_provider_stats(OSSL_PROVIDER *provider, BIO *text)
{
	(void)provider, (void)text;
	return false;
}
#endif

void offload__start(struct offload *offload, const struct options *options)
{
	offload->engine_key = options->engine_key;
	if (options->engine)
		offload->engine = start_engine(options);
	if (options->provider)
		offload->provider = start_provider(options);
}

void offload__stop(struct offload *offload)
{
	if (offload->engine)
		stop_engine(offload->engine);
	if (offload->provider)
		stop_provider(offload->provider);
}

bool offload__loads_keys(const struct offload *offload)
{
	return offload->engine_key || offload->provider;
}

EVP_PKEY *offload__load_key(const struct offload *offload, const char *file)
{
	return offload->provider ? load_provider_key(file) : load_engine_key(offload->engine, file);
}

void offload__write(const struct offload *offload, FILE *out)
{
	BIO *text = BIO_new(BIO_s_mem());
	bool told = text && ((offload->engine && get_engine_stats(offload->engine, text)) ||
	                            (offload->provider && get_provider_stats(offload->provider, text)));
	char *start;

	if (told && BIO_pending(text) > 0) {
		long length = BIO_get_mem_data(text, &start);
		fprintf(out, "%.*s", (int)length, start);
	} else {
		fprintf(out, "null");
	}
	BIO_free(text);
	ERR_clear_error();
}
