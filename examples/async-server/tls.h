// SPDX-License-Identifier: Apache-2.0
// The SSL_CTX that the options ask for, with what its private-key operations are offloaded to.
#ifndef TLS_H
#define TLS_H

#include "offload.h" // comes first
#include <openssl/ssl.h>

struct tls {
	SSL_CTX *context;
	struct offload offload;
};

// Both end the process with status 1 and say why where OpenSSL refuses something.
void tls__new(struct tls *tls, const struct options *options);
void tls__check(int fine, const char *what);
void tls__free(struct tls *tls);

#endif
