// SPDX-License-Identifier: Apache-2.0
// The SSL_CTX that the options ask for, and the engine.
#ifndef TLS_H
#define TLS_H

#define OPENSSL_SUPPRESS_DEPRECATED // Engines are, since OpenSSL 3.0; this header comes first.
#include <openssl/engine.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include "options.h"

struct tls {
	SSL_CTX *context;
	ENGINE *engine; // NULL without one
};

// All end the process with status 1 and say why where OpenSSL refuses something.
void tls__new(struct tls *tls, const struct options *options);
void tls__free(struct tls *tls);
// What the engine says of itself to the control command STATS, or null where it knows none.
void tls__write_engine(const struct tls *tls, FILE *out);

#endif
