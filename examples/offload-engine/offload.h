// SPDX-License-Identifier: Apache-2.0
// One private-key operation on its way through the engine, and what the engine counts.
#ifndef OFFLOAD_H
#define OFFLOAD_H

#define OPENSSL_SUPPRESS_DEPRECATED // Engines are, since OpenSSL 3.0; this header comes first.
#include <openssl/ec.h>
#include <openssl/engine.h>
#include <openssl/rsa.h>
#include "job.h"

enum { OFFLOAD_MAX_BYTES = OPENSSL_RSA_MAX_MODULUS_BITS / 8 };

enum offload_kind { RSA_PRIVATE_ENCRYPT, RSA_PRIVATE_DECRYPT, ECDSA_SIGN, ECDSA_SIGN_SIG, OFFLOAD_KINDS };

struct operation {
	struct work work;
	enum offload_kind kind;
	void *key;    // RSA * or EC_KEY *
	int argument; // RSA: the padding; ECDSA_sign: its first argument
	int length;
	const BIGNUM *inverse, *x; // of ECDSA_sign_setup, mostly NULL
	unsigned char input[OFFLOAD_MAX_BYTES], output[OFFLOAD_MAX_BYTES];
	unsigned int output_length;
	ECDSA_SIG *pair;
};

extern atomic_ulong offload_operations[OFFLOAD_KINDS];

// methods.c
bool methods__new(void);
void methods__free(void);
RSA_METHOD *methods__rsa(void);
EC_KEY_METHOD *methods__ec(void);

#endif
