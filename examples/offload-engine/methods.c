// SPDX-License-Identifier: Apache-2.0
// OpenSSL's own RSA and ECDSA, wrapped: each operation is run as job.c does it. The arithmetic is OpenSSL's.
#include "offload.h"
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>

typedef int ec_sign(int type, const unsigned char *digest, int length, unsigned char *signature, unsigned int *signature_length,
        const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key);
typedef int ec_sign_setup(EC_KEY *key, BN_CTX *context, BIGNUM **inverse, BIGNUM **x);
typedef ECDSA_SIG *ec_sign_sig(const unsigned char *digest, int length, const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key);

atomic_ulong offload_operations[OFFLOAD_KINDS];
static RSA_METHOD *rsa_method;
static EC_KEY_METHOD *ec_method;
static ec_sign *plain_sign;
static ec_sign_setup *plain_sign_setup;
static ec_sign_sig *plain_sign_sig;
static __thread bool performing; // OpenSSL's sign calls the method's sign_sig: that isn't an operation of its own

static int perform_rsa(struct operation *operation)
{
	const RSA_METHOD *plain = RSA_PKCS1_OpenSSL();
	int (*work)(int, const unsigned char *, unsigned char *, RSA *, int) =
	        operation->kind == RSA_PRIVATE_ENCRYPT ? RSA_meth_get_priv_enc(plain) : RSA_meth_get_priv_dec(plain);

	return work(operation->length, operation->input, operation->output, operation->key, operation->argument);
}

static int perform_ecdsa(struct operation *operation)
{
	if (operation->kind == ECDSA_SIGN)
		return plain_sign(operation->argument, operation->input, operation->length, operation->output,
		        &operation->output_length, operation->inverse, operation->x, operation->key);
	operation->pair = plain_sign_sig(operation->input, operation->length, operation->inverse, operation->x, operation->key);
	return operation->pair != NULL;
}

// In the pool's thread, or in the caller's.
static int perform(struct work *work)
{
	struct operation *operation = (struct operation *)work;
	bool rsa = operation->kind == RSA_PRIVATE_ENCRYPT || operation->kind == RSA_PRIVATE_DECRYPT;

	performing = true;
	int result = rsa ? perform_rsa(operation) : perform_ecdsa(operation);
	performing = false;
	return result;
}

static int run(struct operation *operation)
{
	atomic_fetch_add(&offload_operations[operation->kind], 1);
	operation->work.perform = perform;
	return job__run(&operation->work);
}

static int rsa_private(enum offload_kind kind, int length, const unsigned char *from, unsigned char *to, RSA *key, int padding)
{
	struct operation operation = {.kind = kind, .key = key, .argument = padding, .length = length};

	if (length < 0 || length > OFFLOAD_MAX_BYTES || RSA_size(key) > OFFLOAD_MAX_BYTES) {
		ERR_put_error(ERR_LIB_RSA, 0, RSA_R_DATA_TOO_LARGE, __FILE__, __LINE__);
		return -1;
	}
	memcpy(operation.input, from, length);
	int written = run(&operation);
	if (written > 0)
		memcpy(to, operation.output, written);
	OPENSSL_cleanse(operation.input, sizeof(operation.input));
	OPENSSL_cleanse(operation.output, sizeof(operation.output));
	return written;
}

static int offload_rsa_private_encrypt(int length, const unsigned char *from, unsigned char *to, RSA *key, int padding)
{
	return rsa_private(RSA_PRIVATE_ENCRYPT, length, from, to, key, padding);
}

static int offload_rsa_private_decrypt(int length, const unsigned char *from, unsigned char *to, RSA *key, int padding)
{
	return rsa_private(RSA_PRIVATE_DECRYPT, length, from, to, key, padding);
}

// OpenSSL takes the leftmost bits of a digest that is longer than the group's order; such a one can't be longer than a buffer.
static void set_digest(struct operation *operation, const unsigned char *digest, int length)
{
	operation->length = length < OFFLOAD_MAX_BYTES ? length : OFFLOAD_MAX_BYTES;
	memcpy(operation->input, digest, operation->length);
}

static int offload_ecdsa_sign(int type, const unsigned char *digest, int length, unsigned char *signature,
        unsigned int *signature_length, const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key)
{
	struct operation operation = {.kind = ECDSA_SIGN, .key = key, .argument = type, .inverse = inverse, .x = x};

	if (ECDSA_size(key) > OFFLOAD_MAX_BYTES)
		return 0;
	set_digest(&operation, digest, length);
	if (run(&operation) != 1)
		return 0;
	memcpy(signature, operation.output, operation.output_length);
	*signature_length = operation.output_length;
	return 1;
}

static ECDSA_SIG *offload_ecdsa_sign_sig(
        const unsigned char *digest, int length, const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key)
{
	struct operation operation = {.kind = ECDSA_SIGN_SIG, .key = key, .inverse = inverse, .x = x};

	if (performing)
		return plain_sign_sig(digest, length, inverse, x, key);
	set_digest(&operation, digest, length);
	return run(&operation) == 1 ? operation.pair : NULL;
}

static bool rsa_method__new(void)
{
	rsa_method = RSA_meth_dup(RSA_PKCS1_OpenSSL());
	return rsa_method && RSA_meth_set1_name(rsa_method, "offload RSA") &&
	       RSA_meth_set_priv_enc(rsa_method, offload_rsa_private_encrypt) &&
	       RSA_meth_set_priv_dec(rsa_method, offload_rsa_private_decrypt);
}

static bool ec_method__new(void)
{
	EC_KEY_METHOD_get_sign(EC_KEY_OpenSSL(), &plain_sign, &plain_sign_setup, &plain_sign_sig);
	ec_method = EC_KEY_METHOD_new(EC_KEY_OpenSSL());
	if (!ec_method || !plain_sign || !plain_sign_sig)
		return false;
	EC_KEY_METHOD_set_sign(ec_method, offload_ecdsa_sign, plain_sign_setup, offload_ecdsa_sign_sig);
	return true;
}

bool methods__new(void)
{
	if (rsa_method__new() && ec_method__new())
		return true;
	methods__free();
	return false;
}

void methods__free(void)
{
	RSA_meth_free(rsa_method);
	EC_KEY_METHOD_free(ec_method);
	rsa_method = NULL;
	ec_method = NULL;
}

RSA_METHOD *methods__rsa(void)
{
	return rsa_method;
}

EC_KEY_METHOD *methods__ec(void)
{
	return ec_method;
}
