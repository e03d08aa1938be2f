// SPDX-License-Identifier: Apache-2.0
// An OpenSSL engine that hands RSA and ECDSA private-key operations to threads of its own, as an accelerator's engine hands
// them to a card: the ASYNC job that needs the result is paused meanwhile. So async can be tried on any machine, with any
// delay.
//
// Keys come under it in two ways: as the default for RSA and EC (ENGINE_set_default, then load the key from its file as
// usual), or by ENGINE_load_private_key with the file's name as the key's name.
#include "offload.h"
#include <openssl/pem.h>
#include <string.h>

enum { COMMAND_THREADS = ENGINE_CMD_BASE, COMMAND_DELAY_US, COMMAND_STATS };

static const ENGINE_CMD_DEFN commands[] = {
        {COMMAND_THREADS, "THREADS", "how many operations are done at the same time (1 to 1024, before the first one; 4)",
                ENGINE_CMD_FLAG_NUMERIC},
        {COMMAND_DELAY_US, "DELAY_US", "how long each operation takes on top of its work, in microseconds (0)",
                ENGINE_CMD_FLAG_NUMERIC},
        {COMMAND_STATS, "STATS", "writes what was counted so far to a BIO *, as a JSON object", ENGINE_CMD_FLAG_INTERNAL},
        {0, NULL, NULL, 0},
};

static bool write_stats(BIO *out)
{
	const struct work_counters *counted = &work_counters;
	const char *format = "{\"rsa_private_encrypt\": %lu, \"rsa_private_decrypt\": %lu, \"ecdsa_sign\": %lu, "
	                     "\"ecdsa_sign_sig\": %lu, \"offloaded\": %lu, \"synchronous\": %lu, \"refused\": %lu, "
	                     "\"pauses\": %lu, \"early\": %lu}";

	return out && BIO_printf(out, format, offload_operations[RSA_PRIVATE_ENCRYPT], offload_operations[RSA_PRIVATE_DECRYPT],
	                      offload_operations[ECDSA_SIGN], offload_operations[ECDSA_SIGN_SIG], counted->offloaded,
	                      counted->synchronous, counted->refused, counted->pauses, counted->early) > 0;
}

static int control(ENGINE *engine, int command, long number, void *pointer, void (*function)(void))
{
	(void)engine, (void)function;
	switch (command) {
	case COMMAND_THREADS:
		return pool__set_threads(number);
	case COMMAND_DELAY_US:
		return pool__set_delay_us(number);
	case COMMAND_STATS:
		return write_stats(pointer);
	}
	return 0;
}

// A key whose RSA or EC_KEY has another method than OpenSSL's is used through that method, also by OpenSSL 3.
static bool give_to_engine(EVP_PKEY *key)
{
	RSA *rsa = NULL;
	EC_KEY *ec = NULL;
	bool fine = false;

	if (EVP_PKEY_id(key) == EVP_PKEY_RSA && (rsa = EVP_PKEY_get1_RSA(key)) != NULL)
		fine = RSA_set_method(rsa, methods__rsa()) && EVP_PKEY_set1_RSA(key, rsa);
	else if (EVP_PKEY_id(key) == EVP_PKEY_EC && (ec = EVP_PKEY_get1_EC_KEY(key)) != NULL)
		fine = EC_KEY_set_method(ec, methods__ec()) && EVP_PKEY_set1_EC_KEY(key, ec);
	RSA_free(rsa);
	EC_KEY_free(ec);
	return fine;
}

static EVP_PKEY *load_private_key(ENGINE *engine, const char *file, UI_METHOD *interface, void *data)
{
	BIO *in = BIO_new_file(file, "r");
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;

	(void)engine, (void)interface, (void)data;
	BIO_free(in);
	if (key && give_to_engine(key))
		return key;
	EVP_PKEY_free(key);
	return NULL;
}

static int finish(ENGINE *engine)
{
	(void)engine;
	pool__stop();
	return 1;
}

static int destroy(ENGINE *engine)
{
	(void)engine;
	methods__free();
	return 1;
}

static int bind_offload(ENGINE *engine, const char *id)
{
	if (id && strcmp(id, "offload") != 0)
		return 0;
	if (!pool__read_environment() || !methods__new())
		return 0;
	return ENGINE_set_id(engine, "offload") && ENGINE_set_name(engine, "private-key operations on threads, with a delay") &&
	       ENGINE_set_RSA(engine, methods__rsa()) && ENGINE_set_EC(engine, methods__ec()) &&
	       ENGINE_set_load_privkey_function(engine, load_private_key) && ENGINE_set_finish_function(engine, finish) &&
	       ENGINE_set_destroy_function(engine, destroy) && ENGINE_set_cmd_defns(engine, commands) &&
	       ENGINE_set_ctrl_function(engine, control);
}

IMPLEMENT_DYNAMIC_CHECK_FN()
IMPLEMENT_DYNAMIC_BIND_FN(bind_offload)
