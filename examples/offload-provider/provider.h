// SPDX-License-Identifier: Apache-2.0
// What the parts of the provider share: its keys, and the operations that it offers.
#ifndef PROVIDER_H
#define PROVIDER_H

#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { PROVIDER_MAX_BYTES = 2048 }; // of what is signed at once, or decrypted, and of what comes of it

enum provider_kind { RSA_SIGN, ECDSA_SIGN, RSA_DECRYPT, PROVIDER_KINDS };

// The default provider in a library context of its own, which holds the keys and does the arithmetic.
struct provider {
	OSSL_LIB_CTX *context;
	OSSL_PROVIDER *inner;
	long fail_every; // 0: no operation fails that needn't
	atomic_ulong operations[PROVIDER_KINDS], failed;
};

struct key {
	struct provider *provider;
	EVP_PKEY *inner; // NULL until it is imported
};

extern const OSSL_DISPATCH provider_rsa_keys[], provider_ec_keys[];
extern const OSSL_DISPATCH provider_rsa_signature[], provider_ecdsa_signature[], provider_rsa_cipher[];

#endif
