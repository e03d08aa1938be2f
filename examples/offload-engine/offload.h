// SPDX-License-Identifier: Apache-2.0
// One private-key operation on its way through the engine, and what the engine counts.
#ifndef OFFLOAD_H
#define OFFLOAD_H

#define OPENSSL_SUPPRESS_DEPRECATED // Engines are, since OpenSSL 3.0; this header comes first.
#include <openssl/ec.h>
#include <openssl/engine.h>
#include <openssl/rsa.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { OFFLOAD_MAX_BYTES = OPENSSL_RSA_MAX_MODULUS_BITS / 8, OFFLOAD_MAX_THREADS = 1024, OFFLOAD_MAX_DELAY_US = 10000000 };

enum offload_kind { RSA_PRIVATE_ENCRYPT, RSA_PRIVATE_DECRYPT, ECDSA_SIGN, ECDSA_SIGN_SIG, OFFLOAD_KINDS };

// Lives on the stack of the ASYNC job that waits for it. Input and output are copies: whoever frees an SSL whose job is
// paused loses that stack (OpenSSL leaks it), but takes back the buffers that the job was called with.
struct operation {
	enum offload_kind kind;
	void *key;    // RSA * or EC_KEY *
	int argument; // RSA: the padding; ECDSA_sign: its first argument
	int length;
	const BIGNUM *inverse, *x; // of ECDSA_sign_setup, mostly NULL
	unsigned char input[OFFLOAD_MAX_BYTES], output[OFFLOAD_MAX_BYTES];
	unsigned int output_length;
	ECDSA_SIG *pair;
	int result;
	unsigned long error; // OpenSSL's error code from the thread that did the work
	bool done;
	int wake_fd; // readable when done; -1 once the waiter has gone
	struct operation *next;
};

struct offload_counters {
	atomic_ulong operations[OFFLOAD_KINDS];
	atomic_ulong offloaded, synchronous, refused; // by a job, outside of one, by a job that couldn't wait
	atomic_ulong pauses, early;                   // calls of ASYNC_pause_job; those that came back before the work was done
};

extern struct offload_counters offload_counters;

// Does the work of `operation` at once, after the delay.
void operation__perform(struct operation *operation);

// methods.c
bool methods__new(void);
void methods__free(void);
RSA_METHOD *methods__rsa(void);
EC_KEY_METHOD *methods__ec(void);

// pool.c
bool pool__set_threads(long threads);
bool pool__set_delay_us(long delay_us);
void pool__delay(void);
bool pool__submit(struct operation *operation);
bool pool__is_done(struct operation *operation);
void pool__forget(int wake_fd);
void pool__stop(void);

#endif
