// SPDX-License-Identifier: Apache-2.0
// RSA and EC keys: each is one of the default provider's in the provider's own library context, and is not given away.
#include "provider.h"

#include <stdlib.h>

static void *new_key(void *context)
{
	struct key *key = calloc(1, sizeof(*key));

	if (key)
		key->provider = context;
	return key;
}

static void free_key(void *data)
{
	struct key *key = data;

	EVP_PKEY_free(key->inner);
	free(key);
}

// That what was imported has what is asked for: a key that hasn't isn't made.
static int has(const void *data, int selection)
{
	(void)selection;
	return ((const struct key *)data)->inner != NULL;
}

static int match(const void *data, const void *other, int selection)
{
	const struct key *one = data, *two = other;

	(void)selection;
	return one->inner && two->inner && EVP_PKEY_eq(one->inner, two->inner) == 1;
}

static int import(struct key *key, const char *type, int selection, const OSSL_PARAM params[])
{
	EVP_PKEY_CTX *making = EVP_PKEY_CTX_new_from_name(key->provider->context, type, NULL);
	int fine = making && EVP_PKEY_fromdata_init(making) == 1 &&
	           EVP_PKEY_fromdata(making, &key->inner, selection, (OSSL_PARAM *)params) == 1;

	EVP_PKEY_CTX_free(making);
	return fine;
}

static int import_rsa(void *data, int selection, const OSSL_PARAM params[])
{
	return import(data, "RSA", selection, params);
}

static int import_ec(void *data, int selection, const OSSL_PARAM params[])
{
	return import(data, "EC", selection, params);
}

static const OSSL_PARAM *importable(const char *type, int selection)
{
	EVP_PKEY_CTX *making = EVP_PKEY_CTX_new_from_name(NULL, type, "provider=default");
	const OSSL_PARAM *known =
	        making && EVP_PKEY_fromdata_init(making) == 1 ? EVP_PKEY_fromdata_settable(making, selection) : NULL;

	EVP_PKEY_CTX_free(making);
	return known; // a constant of the default provider
}

static const OSSL_PARAM *importable_rsa(int selection)
{
	return importable("RSA", selection);
}

static const OSSL_PARAM *importable_ec(int selection)
{
	return importable("EC", selection);
}

static int get_params(void *data, OSSL_PARAM params[])
{
	const struct key *key = data;

	return key->inner && EVP_PKEY_get_params(key->inner, params);
}

static const OSSL_PARAM *gettable_params(void *context)
{
	const struct provider *provider = context;
	EVP_KEYMGMT *keys = EVP_KEYMGMT_fetch(provider->context, "EC", NULL); // has all that those of RSA have
	const OSSL_PARAM *known = keys ? EVP_KEYMGMT_gettable_params(keys) : NULL;

	EVP_KEYMGMT_free(keys);
	return known;
}

static const char *ec_operation(int operation)
{
	return operation == OSSL_OP_SIGNATURE ? "ECDSA" : NULL;
}

#define KEYS(type, ...)                                                                                                        \
	const OSSL_DISPATCH provider_##type##_keys[] = {                                                                       \
	        {OSSL_FUNC_KEYMGMT_NEW, (void (*)(void))new_key},                                                              \
	        {OSSL_FUNC_KEYMGMT_FREE, (void (*)(void))free_key},                                                            \
	        {OSSL_FUNC_KEYMGMT_HAS, (void (*)(void))has},                                                                  \
	        {OSSL_FUNC_KEYMGMT_MATCH, (void (*)(void))match},                                                              \
	        {OSSL_FUNC_KEYMGMT_IMPORT, (void (*)(void))import_##type},                                                     \
	        {OSSL_FUNC_KEYMGMT_IMPORT_TYPES, (void (*)(void))importable_##type},                                           \
	        {OSSL_FUNC_KEYMGMT_GET_PARAMS, (void (*)(void))get_params},                                                    \
	        {OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, (void (*)(void))gettable_params},                                          \
	        __VA_ARGS__{0, NULL},                                                                                          \
	}

KEYS(rsa);
KEYS(ec, {OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, (void (*)(void))ec_operation}, );
