// SPDX-License-Identifier: Apache-2.0
// The default provider's RSA and ECDSA signatures and RSA decryption, wrapped: each operation is run as job.c does it. RSA is
// signed by digest_sign_update and _final, as Intel's qatprovider has it, ECDSA by digest_sign.
#include "provider.h"
#include "job.h"

#include <openssl/err.h>
#include <openssl/proverr.h>
#include <stdlib.h>
#include <string.h>

// One signature to come, or one decryption.
struct session {
	struct provider *provider;
	EVP_MD_CTX *digest;     // a signature's
	EVP_PKEY_CTX *settings; // the digest's, or a decryption's own
};

// A copy of input and output is in it: see job.h.
struct operation {
	struct work work;
	enum provider_kind kind;
	struct session *session;
	unsigned char input[PROVIDER_MAX_BYTES], output[PROVIDER_MAX_BYTES];
	size_t input_length, output_length;
};

static void *new_session(void *context, const char *properties)
{
	struct session *session = calloc(1, sizeof(*session));

	(void)properties;
	if (session)
		session->provider = context;
	return session;
}

static void free_session(void *data)
{
	struct session *session = data;

	if (session->digest)
		EVP_MD_CTX_free(session->digest); // and its settings
	else
		EVP_PKEY_CTX_free(session->settings);
	free(session);
}

// OpenSSL ends a signature by update and final on a copy.
static void *copy_session(void *data)
{
	const struct session *session = data;
	struct session *copy = new_session(session->provider, NULL);

	if (!copy || !session->digest)
		return copy;
	copy->digest = EVP_MD_CTX_new();
	if (!copy->digest || EVP_MD_CTX_copy_ex(copy->digest, session->digest) != 1) {
		free_session(copy);
		return NULL;
	}
	copy->settings = EVP_MD_CTX_get_pkey_ctx(copy->digest);
	return copy;
}

// In the pool's thread, or in the caller's.
static int perform(struct work *work)
{
	struct operation *operation = (struct operation *)work;
	struct session *session = operation->session;

	switch (operation->kind) {
	case RSA_SIGN:
		return EVP_DigestSignFinal(session->digest, operation->output, &operation->output_length);
	case ECDSA_SIGN:
		return EVP_DigestSign(session->digest, operation->output, &operation->output_length, operation->input,
		        operation->input_length);
	default:
		return EVP_PKEY_decrypt(session->settings, operation->output, &operation->output_length, operation->input,
		        operation->input_length);
	}
}

static int fail(struct work *work)
{
	(void)work;
	ERR_raise(ERR_LIB_PROV, PROV_R_FAILED_TO_SIGN);
	return 0;
}

// Whether this one is among those that were asked to fail.
static bool fails(struct provider *provider, enum provider_kind kind)
{
	unsigned long number = 1 + atomic_fetch_add(&provider->operations[kind], 1);

	if (!provider->fail_every || number % provider->fail_every)
		return false;
	atomic_fetch_add(&provider->failed, 1);
	return true;
}

static int run(struct session *session, enum provider_kind kind, unsigned char *out, size_t *length, size_t room,
        const unsigned char *input, size_t input_length)
{
	struct operation operation = {.kind = kind, .session = session, .output_length = PROVIDER_MAX_BYTES};

	if (input_length > PROVIDER_MAX_BYTES) {
		ERR_raise(ERR_LIB_PROV, PROV_R_INVALID_INPUT_LENGTH);
		return 0;
	}
	if (input_length)
		memcpy(operation.input, input, input_length);
	operation.input_length = input_length;
	operation.work.perform = fails(session->provider, kind) ? fail : perform;
	if (job__run(&operation.work) <= 0)
		return 0;
	if (operation.output_length > room) {
		ERR_raise(ERR_LIB_PROV, PROV_R_OUTPUT_BUFFER_TOO_SMALL);
		return 0;
	}
	memcpy(out, operation.output, operation.output_length);
	*length = operation.output_length;
	OPENSSL_cleanse(operation.output, sizeof(operation.output));
	return 1;
}

static int begin_signature(void *data, const char *digest, void *key_data, const OSSL_PARAM params[])
{
	struct session *session = data;
	const struct key *key = key_data;

	if (!key || !key->inner || !(session->digest = EVP_MD_CTX_new()))
		return 0;
	return EVP_DigestSignInit_ex(
	        session->digest, &session->settings, digest, session->provider->context, NULL, key->inner, params);
}

static int add_to_signature(void *data, const unsigned char *bytes, size_t length)
{
	return EVP_DigestSignUpdate(((struct session *)data)->digest, bytes, length);
}

static int rsa_signature(void *data, unsigned char *signature, size_t *length, size_t room)
{
	struct session *session = data;

	if (!signature)
		return EVP_DigestSignFinal(session->digest, NULL, length);
	return run(session, RSA_SIGN, signature, length, room, NULL, 0);
}

static int ecdsa_signature(
        void *data, unsigned char *signature, size_t *length, size_t room, const unsigned char *bytes, size_t number)
{
	struct session *session = data;

	if (!signature)
		return EVP_DigestSign(session->digest, NULL, length, bytes, number);
	return run(session, ECDSA_SIGN, signature, length, room, bytes, number);
}

static int begin_decryption(void *data, void *key_data, const OSSL_PARAM params[])
{
	struct session *session = data;
	const struct key *key = key_data;

	if (!key || !key->inner)
		return 0;
	session->settings = EVP_PKEY_CTX_new_from_pkey(session->provider->context, key->inner, NULL);
	return session->settings && EVP_PKEY_decrypt_init_ex(session->settings, params) == 1;
}

static int rsa_decryption(
        void *data, unsigned char *out, size_t *length, size_t room, const unsigned char *bytes, size_t number)
{
	struct session *session = data;

	if (!out)
		return EVP_PKEY_decrypt(session->settings, NULL, length, bytes, number);
	return run(session, RSA_DECRYPT, out, length, room, bytes, number);
}

static int set_params(void *data, const OSSL_PARAM params[])
{
	struct session *session = data;

	return session->settings && EVP_PKEY_CTX_set_params(session->settings, params) == 1;
}

static const OSSL_PARAM *settable_params(void *data, void *context)
{
	struct session *session = data;

	(void)context;
	return session && session->settings ? EVP_PKEY_CTX_settable_params(session->settings) : NULL;
}

#define SIGNATURE                                                                                                              \
	{OSSL_FUNC_SIGNATURE_NEWCTX, (void (*)(void))new_session},                                                             \
	        {OSSL_FUNC_SIGNATURE_FREECTX, (void (*)(void))free_session},                                                   \
	        {OSSL_FUNC_SIGNATURE_DUPCTX, (void (*)(void))copy_session},                                                    \
	        {OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, (void (*)(void))begin_signature},                                       \
	        {OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, (void (*)(void))set_params},                                              \
	{                                                                                                                      \
		OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, (void (*)(void))settable_params                                       \
	}

const OSSL_DISPATCH provider_rsa_signature[] = {
        SIGNATURE,
        {OSSL_FUNC_SIGNATURE_DIGEST_SIGN_UPDATE, (void (*)(void))add_to_signature},
        {OSSL_FUNC_SIGNATURE_DIGEST_SIGN_FINAL, (void (*)(void))rsa_signature},
        {0, NULL},
};
const OSSL_DISPATCH provider_ecdsa_signature[] = {
        SIGNATURE,
        {OSSL_FUNC_SIGNATURE_DIGEST_SIGN, (void (*)(void))ecdsa_signature},
        {0, NULL},
};
const OSSL_DISPATCH provider_rsa_cipher[] = {
        {OSSL_FUNC_ASYM_CIPHER_NEWCTX, (void (*)(void))new_session},
        {OSSL_FUNC_ASYM_CIPHER_FREECTX, (void (*)(void))free_session},
        {OSSL_FUNC_ASYM_CIPHER_DECRYPT_INIT, (void (*)(void))begin_decryption},
        {OSSL_FUNC_ASYM_CIPHER_DECRYPT, (void (*)(void))rsa_decryption},
        {OSSL_FUNC_ASYM_CIPHER_SET_CTX_PARAMS, (void (*)(void))set_params},
        {OSSL_FUNC_ASYM_CIPHER_SETTABLE_CTX_PARAMS, (void (*)(void))settable_params},
        {0, NULL},
};
