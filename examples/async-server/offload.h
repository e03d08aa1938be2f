// SPDX-License-Identifier: Apache-2.0
// The engine or provider that private-key operations are offloaded to: OpenSSL has engines until 3.6, providers from 3.0 on.
#ifndef OFFLOAD_H
#define OFFLOAD_H

#define OPENSSL_SUPPRESS_DEPRECATED // Engines are, since OpenSSL 3.0; this header comes first.
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include "options.h"
#ifndef OPENSSL_NO_ENGINE
#include <openssl/engine.h>
#else
typedef struct engine_st ENGINE;
#endif
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/provider.h>
#else
typedef struct ossl_provider_st OSSL_PROVIDER;
#endif

// NULL what there is none of.
struct offload {
	ENGINE *engine;
	OSSL_PROVIDER *provider;
	bool engine_key;
};

// Ends the process with status 1 and says why where OpenSSL refuses it.
void offload__start(struct offload *offload, const struct options *options);
void offload__stop(struct offload *offload);
bool offload__loads_keys(const struct offload *offload);
EVP_PKEY *offload__load_key(const struct offload *offload, const char *file);
// What it says of itself, the engine to the control command STATS, the provider by the parameter "offload-stats"; or null.
void offload__write(const struct offload *offload, FILE *out);

#endif
