// SPDX-License-Identifier: Apache-2.0
// A provider of OpenSSL 3 and later that hands RSA and ECDSA private-key operations to threads of its own, as an accelerator's
// provider hands them to a card: the ASYNC job that needs the result is paused meanwhile. It does what the engine beside it
// does, which OpenSSL 4 can't load any more.
//
// A key that is loaded with the property "provider=offload" is the provider's own: it is exported to no other one, as that of a
// hardware module, so that each of its operations comes here.
#include "provider.h"
#include "job.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>

#define STATS "offload-stats"

static const OSSL_ALGORITHM keys[] = {
        {"RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=offload", provider_rsa_keys, "RSA keys of the offload"},
        {"EC:id-ecPublicKey:1.2.840.10045.2.1", "provider=offload", provider_ec_keys, "EC keys of the offload"},
        {NULL, NULL, NULL, NULL},
};
static const OSSL_ALGORITHM signatures[] = {
        {"RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=offload", provider_rsa_signature, "RSA by the offload"},
        {"ECDSA", "provider=offload", provider_ecdsa_signature, "ECDSA by the offload"},
        {NULL, NULL, NULL, NULL},
};
static const OSSL_ALGORITHM ciphers[] = {
        {"RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=offload", provider_rsa_cipher, "RSA by the offload"},
        {NULL, NULL, NULL, NULL},
};

static const OSSL_ALGORITHM *query(void *context, int operation, int *no_cache)
{
	(void)context;
	*no_cache = 0;
	switch (operation) {
	case OSSL_OP_KEYMGMT:
		return keys;
	case OSSL_OP_SIGNATURE:
		return signatures;
	case OSSL_OP_ASYM_CIPHER:
		return ciphers;
	}
	return NULL;
}

static const OSSL_PARAM *gettable_params(void *context)
{
	static const OSSL_PARAM known[] = {
	        OSSL_PARAM_DEFN(OSSL_PROV_PARAM_NAME, OSSL_PARAM_UTF8_PTR, NULL, 0),
	        OSSL_PARAM_DEFN(OSSL_PROV_PARAM_STATUS, OSSL_PARAM_INTEGER, NULL, 0),
	        OSSL_PARAM_DEFN(STATS, OSSL_PARAM_UTF8_STRING, NULL, 0),
	        OSSL_PARAM_END,
	};

	(void)context;
	return known;
}

static bool get_stats(const struct provider *provider, OSSL_PARAM *param)
{
	const struct work_counters *counted = &work_counters;
	const char *format = "{\"rsa_sign\": %lu, \"ecdsa_sign\": %lu, \"rsa_decrypt\": %lu, \"failed\": %lu, "
	                     "\"offloaded\": %lu, \"synchronous\": %lu, \"refused\": %lu, \"pauses\": %lu, \"early\": %lu}";
	char text[512];

	snprintf(text, sizeof(text), format, provider->operations[RSA_SIGN], provider->operations[ECDSA_SIGN],
	        provider->operations[RSA_DECRYPT], provider->failed, counted->offloaded, counted->synchronous, counted->refused,
	        counted->pauses, counted->early);
	return OSSL_PARAM_set_utf8_string(param, text);
}

static int get_params(void *context, OSSL_PARAM params[])
{
	OSSL_PARAM *name = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_NAME);
	OSSL_PARAM *status = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_STATUS);
	OSSL_PARAM *stats = OSSL_PARAM_locate(params, STATS);

	return (!name || OSSL_PARAM_set_utf8_ptr(name, "private-key operations on threads, with a delay")) &&
	       (!status || OSSL_PARAM_set_int(status, 1)) && (!stats || get_stats(context, stats));
}

static void teardown(void *context)
{
	struct provider *provider = context;

	pool__stop();
	OSSL_PROVIDER_unload(provider->inner);
	OSSL_LIB_CTX_free(provider->context);
	free(provider);
}

static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_PROVIDER_TEARDOWN, (void (*)(void))teardown},
        {OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, (void (*)(void))gettable_params},
        {OSSL_FUNC_PROVIDER_GET_PARAMS, (void (*)(void))get_params},
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query},
        {0, NULL},
};

static bool read_environment(struct provider *provider)
{
	const char *fail_every = getenv("OFFLOAD_FAIL_EVERY");

	provider->fail_every = fail_every ? atol(fail_every) : 0;
	return provider->fail_every >= 0 && pool__read_environment();
}

OSSL_provider_init_fn OSSL_provider_init __attribute__((visibility("default")));

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **context)
{
	struct provider *provider = calloc(1, sizeof(*provider));

	(void)handle, (void)in;
	if (!provider)
		return 0;
	provider->context = OSSL_LIB_CTX_new();
	provider->inner = provider->context ? OSSL_PROVIDER_load(provider->context, "default") : NULL;
	if (!provider->inner || !read_environment(provider)) {
		teardown(provider);
		return 0;
	}
	*out = functions;
	*context = provider;
	return 1;
}
