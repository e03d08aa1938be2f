// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose own functions bear names of the catalogue, so that they are planned and traced like the library's. It says
 * "ready", then takes commands on standard input, one a line, and answers each with "done":
 *   calls N        N calls of RSA_sign that succeed, N that fail
 *   reads N R      N calls of SSL_read that return R
 *   recurse N      RSA_verify to depth N
 *   hold N         RSA_verify to depth N, which returns when the next line comes
 *   jump N         N calls of RSA_verify left by longjmp
 *   threads T N    T threads with N calls of RSA_sign each
 *   exit N         N threads that end inside RSA_verify
 *   forks F N      F child processes with N calls of RSA_sign each, waited for
 *   lanes N S      N calls of mbx_x25519_mb8 that return the status S
 *   work N T       N calls of ECDSA_sign that each take T turns of a loop
 *   block          RSA_verify that returns when the next line comes
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACED __attribute__((noinline, noclone, visibility("default")))

static jmp_buf back;
static volatile int sink;

TRACED int RSA_sign(int wanted, const char *label)
{
	char copy[32];

	snprintf(copy, sizeof(copy), "%s%d", label, wanted);
	sink += (int)strlen(copy);
	return wanted;
}

TRACED int SSL_read(void *ssl, void *buffer, int wanted)
{
	char copy[32];

	(void)ssl;
	(void)buffer;
	snprintf(copy, sizeof(copy), "%d", wanted);
	sink += (int)strlen(copy);
	return wanted;
}

TRACED unsigned int mbx_x25519_mb8(void *lanes[8], unsigned int status)
{
	char copy[32];

	snprintf(copy, sizeof(copy), "%p%x", (void *)lanes, status);
	sink += (int)strlen(copy);
	return status;
}

TRACED int ECDSA_sign(long turns)
{
	char copy[32];

	for (volatile long turn = 0; turn < turns; turn++)
		;
	snprintf(copy, sizeof(copy), "%ld", turns);
	sink += (int)strlen(copy);
	return 1;
}

enum { DESCEND, JUMP, END_THREAD, BLOCK, HOLD };

TRACED int RSA_verify(int how, int depth)
{
	char line[64];

	if (how == JUMP)
		longjmp(back, 1);
	if (how == END_THREAD)
		pthread_exit(NULL);
	if (how == BLOCK)
		return fgets(line, sizeof(line), stdin) != NULL;
	if (depth > 1)
		sink += RSA_verify(how, depth - 1);
	else if (how == HOLD)
		return fgets(line, sizeof(line), stdin) != NULL;
	return 1;
}

static void *many_calls(void *count)
{
	for (long i = 0; i < (long)count; i++)
		RSA_sign(1, "thread");
	return NULL;
}

static void *end_inside(void *unused)
{
	RSA_verify(END_THREAD, 0);
	return unused;
}

static void in_threads(int threads, void *(*body)(void *), long argument)
{
	pthread_t made[64];

	for (int i = 0; i < threads && i < 64; i++)
		pthread_create(&made[i], NULL, body, (void *)argument);
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(made[i], NULL);
}

static void in_children(int children, long count)
{
	for (int i = 0; i < children; i++) {
		pid_t child = fork();

		if (child == 0) {
			many_calls((void *)count);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static void obey(const char *word, long first, long second)
{
	if (!strcmp(word, "calls"))
		for (long i = 0; i < 2 * first; i++)
			RSA_sign(i % 2, "call");
	else if (!strcmp(word, "reads"))
		for (long i = 0; i < first; i++)
			SSL_read(NULL, NULL, (int)second);
	else if (!strcmp(word, "work"))
		for (long i = 0; i < first; i++)
			ECDSA_sign(second);
	else if (!strcmp(word, "lanes"))
		for (long i = 0; i < first; i++)
			mbx_x25519_mb8(NULL, (unsigned int)second);
	else if (!strcmp(word, "recurse"))
		RSA_verify(DESCEND, (int)first);
	else if (!strcmp(word, "hold"))
		RSA_verify(HOLD, (int)first);
	else if (!strcmp(word, "jump"))
		for (volatile long i = 0; i < first; i++) {
			if (!setjmp(back))
				RSA_verify(JUMP, 0);
		}
	else if (!strcmp(word, "threads"))
		in_threads((int)first, many_calls, second);
	else if (!strcmp(word, "exit"))
		in_threads((int)first, end_inside, 0);
	else if (!strcmp(word, "forks"))
		in_children((int)first, second);
	else if (!strcmp(word, "block"))
		RSA_verify(BLOCK, 0);
}

TRACED int EVP_DigestSign(void)
{
	return 1; /* marks the file as one that holds libcrypto */
}

int main(void)
{
	char line[64], word[16];
	long first, second;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		first = second = 0;
		if (sscanf(line, "%15s %ld %ld", word, &first, &second) >= 1)
			obey(word, first, second);
		printf("done\n");
	}
	return EVP_DigestSign() - 1;
}
