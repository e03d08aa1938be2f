// SPDX-License-Identifier: Apache-2.0
// What the parts of the program share: see fibers.c.
#ifndef FIBERS_H
#define FIBERS_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define EXPORTED __attribute__((noinline, noclone, visibility("default")))

enum { SSL_NOTHING = 1, SSL_ASYNC_PAUSED = 5 }; // as in openssl/ssl.h

enum deed { RETURN, JUMP, LEAVE }; // what the innermost call does after its pauses

struct key { // OpenSSL's RSA and EC_KEY
	unsigned int number, pauses;
	bool fails;
	enum deed deed;
	jmp_buf landing;
};

typedef struct ssl_st {
	int version, rwstate, server, shutdown;
	struct job *job;
} SSL;

struct job {
	SSL ssl;
	struct key key;
	unsigned int depth;
	char *stack;
	ucontext_t here, dispatcher;
	bool paused, done;
	int result;
	uint64_t signature;
};

struct settings {
	bool on_thread, inside, lifo, wait;
	enum { BELOW, ABOVE, MIXED } stacks;
	long jobs, depth, pauses, rounds, jumps, exits, threads;
};

// fibers_options.c
extern struct settings settings;
void parse_options(int argc, char **argv);

// fibers_calls.c: the functions that are traced, with OpenSSL's names and arguments, and their true counts
int ASYNC_pause_job(void);
int ECDSA_sign(
        int type, const unsigned char *digest, int length, unsigned char *signature, unsigned int *size, struct key *key);
int RSA_sign(int depth, const unsigned char *digest, unsigned int length, unsigned char *signature, unsigned int *size,
        struct key *key);
int EVP_DigestSign(struct job *job, unsigned char *signature, size_t *size, const unsigned char *digest, size_t length);
int SSL_do_handshake(SSL *ssl);
int SSL_want(const SSL *ssl);
int SSL_is_server(const SSL *ssl);
int SSL_get_shutdown(const SSL *ssl);

extern __thread struct job *current; // the one whose stack we are on
void enter(struct job *job);         // until it pauses or is done
void sign(struct job *job);          // and checks what comes of it
void expect(bool right, const char *what, unsigned int job);
bool all_was_right(void);
void print_counts(void);

#endif
