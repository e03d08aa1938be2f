// SPDX-License-Identifier: Apache-2.0
// The functions that a tracer takes for OpenSSL's, with OpenSSL's names, arguments and results, and how often each of them
// truly began and ended. What they compute depends on every call in between, so that a call that comes back at a wrong place
// shows.
#include "fibers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum function { HANDSHAKE, RSA_SIGN, ECDSA_SIGN, PAUSE_JOB, FUNCTIONS };
enum outcome { SUCCESS, FAILURE, RETRY, OUTCOMES };

static const char *const function_names[FUNCTIONS] = {"SSL_do_handshake", "RSA_sign", "ECDSA_sign", "ASYNC_pause_job"};
static atomic_ulong entries[FUNCTIONS], completed[FUNCTIONS][OUTCOMES], wrong;

static inline void begins(enum function function)
{
	atomic_fetch_add_explicit(&entries[function], 1, memory_order_relaxed);
}

static inline void ends(enum function function, enum outcome outcome)
{
	atomic_fetch_add_explicit(&completed[function][outcome], 1, memory_order_relaxed);
}

void expect(bool right, const char *what, unsigned int job)
{
	if (!right && atomic_fetch_add(&wrong, 1) < 10)
		fprintf(stderr, "fibers: job %u: wrong %s\n", job, what);
}

bool all_was_right(void)
{
	return wrong == 0;
}

void print_counts(void)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		unsigned long success = completed[i][SUCCESS], failure = completed[i][FAILURE], retry = completed[i][RETRY];
		printf("%s\"%s\": {\"entries\": %lu, \"completed\": %lu, \"success\": %lu, \"failure\": %lu, \"retry\": %lu}",
		        i ? ", " : "{", function_names[i], entries[i], success + failure + retry, success, failure, retry);
	}
	printf("}\n");
	fflush(stdout);
}

__thread struct job *current;

static uint64_t mix(uint64_t value)
{
	value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15;
	return value ^ (value >> 29);
}

static uint64_t expected_signature(unsigned int number, unsigned int depth)
{
	uint64_t signature = mix(number);

	for (unsigned int level = 0; level <= depth; level++)
		signature = mix(signature + mix((uint64_t)number << 32 | level));
	return signature;
}

EXPORTED int ASYNC_pause_job(void)
{
	struct job *job = current;

	begins(PAUSE_JOB);
	if (job) {
		job->paused = true;
		swapcontext(&job->here, &job->dispatcher);
		expect(current == job && !job->paused, "job after a pause", job->key.number);
	}
	ends(PAUSE_JOB, SUCCESS);
	return 1;
}

EXPORTED int ECDSA_sign(
        int type, const unsigned char *digest, int length, unsigned char *signature, unsigned int *size, struct key *key)
{
	uint64_t value, before = mix(key->number);

	begins(ECDSA_SIGN);
	for (unsigned int i = 0; i < key->pauses; i++)
		expect(ASYNC_pause_job() == 1, "value of ASYNC_pause_job", key->number);
	if (key->deed == JUMP)
		_longjmp(key->landing, 1);
	if (key->deed == LEAVE)
		pthread_exit(key);
	memcpy(&value, digest, sizeof(value));
	expect(type == 0 && length == sizeof(value) && value == before, "argument after a pause", key->number);
	if (key->fails) {
		ends(ECDSA_SIGN, FAILURE);
		return 0;
	}
	memcpy(signature, &value, sizeof(value));
	*size = sizeof(value);
	ends(ECDSA_SIGN, SUCCESS);
	return 1;
}

// The first argument, OpenSSL's type of digest, is the levels of recursion that are left.
EXPORTED int RSA_sign(int depth, const unsigned char *digest, unsigned int length, unsigned char *signature, unsigned int *size,
        struct key *key)
{
	uint64_t value, mine = mix((uint64_t)key->number << 32 | (unsigned int)depth);
	int fine;

	begins(RSA_SIGN);
	if (depth > 0)
		fine = RSA_sign(depth - 1, digest, length, signature, size, key);
	else
		fine = ECDSA_sign(0, digest, length, signature, size, key);
	expect(fine == !key->fails, "value of the call inside RSA_sign", key->number);
	if (!fine) {
		ends(RSA_SIGN, FAILURE);
		return 0;
	}
	memcpy(&value, signature, sizeof(value));
	value = mix(value + mine);
	memcpy(signature, &value, sizeof(value));
	ends(RSA_SIGN, SUCCESS);
	return 1;
}

// Not counted: it is here because a file with this name is taken for a libcrypto.
EXPORTED int EVP_DigestSign(struct job *job, unsigned char *signature, size_t *size, const unsigned char *digest, size_t length)
{
	unsigned int written = 0;
	int fine = RSA_sign((int)job->depth, digest, length, signature, &written, &job->key);

	*size = written;
	return fine;
}

void sign(struct job *job)
{
	uint64_t digest = mix(job->key.number);
	size_t size = 0;

	job->signature = 0;
	job->result = EVP_DigestSign(job, (unsigned char *)&job->signature, &size, (unsigned char *)&digest, sizeof(digest));
	expect(job->result == !job->key.fails && size == (job->key.fails ? 0 : 8), "value of EVP_DigestSign", job->key.number);
	expect(job->key.fails || job->signature == expected_signature(job->key.number, job->depth), "signature",
	        job->key.number);
}

void enter(struct job *job)
{
	current = job;
	job->paused = false;
	swapcontext(&job->dispatcher, &job->here);
	current = NULL;
}

// On the dispatcher's stack it starts or resumes the job, as OpenSSL's does with SSL_MODE_ASYNC. On the job's own it does the
// work, and so pauses in the middle, as in an application whose coroutines call OpenSSL.
EXPORTED int SSL_do_handshake(SSL *ssl)
{
	struct job *job = ssl->job;

	begins(HANDSHAKE);
	if (current == job)
		sign(job);
	else
		enter(job);
	if (job->paused) {
		ssl->rwstate = SSL_ASYNC_PAUSED;
		ends(HANDSHAKE, RETRY);
		return -1;
	}
	ssl->rwstate = SSL_NOTHING;
	ends(HANDSHAKE, job->result == 1 ? SUCCESS : FAILURE);
	return job->result == 1 ? 1 : -1;
}

// A tracer reads the places of these fields out of these functions.
EXPORTED int SSL_want(const SSL *ssl)
{
	return ssl->rwstate;
}

EXPORTED int SSL_is_server(const SSL *ssl)
{
	return ssl->server;
}

EXPORTED int SSL_get_shutdown(const SSL *ssl)
{
	return ssl->shutdown;
}
