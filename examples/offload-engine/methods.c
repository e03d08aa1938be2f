// SPDX-License-Identifier: Apache-2.0
// OpenSSL's own RSA and ECDSA, wrapped: inside an ASYNC job the operation goes to the pool and the job pauses until it is done;
// outside of one the caller waits. The arithmetic is OpenSSL's in both cases.
#include "offload.h"
#include <errno.h>
#include <openssl/async.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef int ec_sign(int type, const unsigned char *digest, int length, unsigned char *signature, unsigned int *signature_length,
        const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key);
typedef int ec_sign_setup(EC_KEY *key, BN_CTX *context, BIGNUM **inverse, BIGNUM **x);
typedef ECDSA_SIG *ec_sign_sig(const unsigned char *digest, int length, const BIGNUM *inverse, const BIGNUM *x, EC_KEY *key);

struct offload_counters offload_counters;
static RSA_METHOD *rsa_method;
static EC_KEY_METHOD *ec_method;
static ec_sign *plain_sign;
static ec_sign_setup *plain_sign_setup;
static ec_sign_sig *plain_sign_sig;
static const char wake_key;      // its address names our descriptor among those of an ASYNC_WAIT_CTX
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

void operation__perform(struct operation *operation)
{
	bool rsa = operation->kind == RSA_PRIVATE_ENCRYPT || operation->kind == RSA_PRIVATE_DECRYPT;

	pool__delay();
	ERR_set_mark();
	performing = true;
	operation->result = rsa ? perform_rsa(operation) : perform_ecdsa(operation);
	performing = false;
	// The queue of errors belongs to this thread; the caller may be on another one.
	operation->error = operation->result > 0 ? 0 : ERR_peek_last_error();
	ERR_pop_to_mark();
}

static void close_wake_fd(ASYNC_WAIT_CTX *context, const void *key, OSSL_ASYNC_FD wake_fd, void *unused)
{
	(void)context, (void)key, (void)unused;
	pool__forget(wake_fd);
	close(wake_fd);
}

// The descriptor by which the application learns that the job can go on: one for each ASYNC_WAIT_CTX, that is for each SSL.
static int wake_fd_of(ASYNC_JOB *job)
{
	ASYNC_WAIT_CTX *context = ASYNC_get_wait_ctx(job);
	OSSL_ASYNC_FD wake_fd = -1;
	void *unused;

	if (!context)
		return -1;
	if (ASYNC_WAIT_CTX_get_fd(context, &wake_key, &wake_fd, &unused))
		return wake_fd;
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd >= 0 && !ASYNC_WAIT_CTX_set_wait_fd(context, &wake_key, wake_fd, NULL, close_wake_fd)) {
		close(wake_fd);
		wake_fd = -1;
	}
	return wake_fd;
}

// At least one pause for each operation, even one that is done already: so pauses can be counted on.
static void pause_until_done(struct operation *operation)
{
	uint64_t unused;

	for (;;) {
		atomic_fetch_add(&offload_counters.pauses, 1);
		ASYNC_pause_job();
		if (pool__is_done(operation))
			break;
		// Resumed for another reason, or ASYNC_block_pause is in force and ASYNC_pause_job comes back at once.
		atomic_fetch_add(&offload_counters.early, 1);
		sched_yield();
	}
	while (read(operation->wake_fd, &unused, sizeof(unused)) < 0 && errno == EINTR) {
	}
}

static void count_operation(struct operation *operation, atomic_ulong *how)
{
	atomic_fetch_add(&offload_counters.operations[operation->kind], 1);
	atomic_fetch_add(how, 1);
}

static int run(struct operation *operation)
{
	ASYNC_JOB *job = ASYNC_get_current_job();

	operation->wake_fd = job ? wake_fd_of(job) : -1;
	if (operation->wake_fd >= 0 && pool__submit(operation)) {
		count_operation(operation, &offload_counters.offloaded);
		pause_until_done(operation);
	} else {
		count_operation(operation, job ? &offload_counters.refused : &offload_counters.synchronous);
		operation__perform(operation);
	}
	if (operation->error)
		ERR_put_error(ERR_GET_LIB(operation->error), 0, ERR_GET_REASON(operation->error), __FILE__, __LINE__);
	return operation->result;
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
