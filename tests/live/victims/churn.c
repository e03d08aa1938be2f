// SPDX-License-Identifier: Apache-2.0
// Processes and threads that come and go, each with a handshake over a BIO pair: usage churn CERTIFICATE KEY. It says "ready",
// then for each line "HOW N" makes N of them in that way, and says "done". HOW is
//   exec     the process executes its own program anew before each
//   fork     each in a child of its own, a few at a time
//   threads  each in a thread of its own, one after the other
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 8 };

static SSL_CTX *context;

static void expect(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "churn: %s failed\n", what);
	_exit(1);
}

static void *shake_hands(void *nothing)
{
	SSL *server = SSL_new(context), *client = SSL_new(context);
	BIO *left, *right;
	int served = 0, done = 0;

	expect(server && client && BIO_new_bio_pair(&left, 0, &right, 0), "SSL_new");
	SSL_set_bio(server, left, left);
	SSL_set_bio(client, right, right);
	for (int turn = 0; turn < 20 && !(served && done); turn++) {
		done = done || SSL_connect(client) == 1;
		served = served || SSL_accept(server) == 1;
	}
	expect(served && done, "handshake");
	SSL_free(server);
	SSL_free(client);
	return nothing;
}

static void in_children(int number)
{
	int status, running = 0;

	for (; number > 0 || running > 0; running--) {
		for (; number > 0 && running < AT_ONCE; number--, running++) {
			pid_t child = fork();

			expect(child >= 0, "fork");
			if (!child) {
				shake_hands(NULL);
				_exit(0);
			}
		}
		expect(wait(&status) > 0 && status == 0, "child");
	}
}

static void in_threads(int number)
{
	pthread_t thread;

	while (number-- > 0) {
		expect(pthread_create(&thread, NULL, shake_hands, NULL) == 0, "pthread_create");
		pthread_join(thread, NULL);
	}
}

// Doesn't return, but where there is no more to do.
static void execute_anew(char **words, int number)
{
	char left[16];
	char *anew[] = {words[0], words[1], words[2], left, NULL};

	if (number == 0)
		return;
	snprintf(left, sizeof(left), "%d", number);
	execv("/proc/self/exe", anew);
	expect(0, "execv");
}

static void say(const char *word)
{
	printf("%s\n", word);
	fflush(stdout);
}

int main(int count, char **words)
{
	char line[64], how[16];
	int number;

	context = SSL_CTX_new(TLS_method());
	if (count < 3 || SSL_CTX_use_certificate_chain_file(context, words[1]) != 1 ||
	        SSL_CTX_use_PrivateKey_file(context, words[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	setvbuf(stdin, NULL, _IONBF, 0); // what is read ahead would be lost by execv
	if (count == 4) {
		shake_hands(NULL);
		execute_anew(words, atoi(words[3]) - 1);
	}
	say(count == 4 ? "done" : "ready");
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%15s %d", how, &number) == 2) {
		if (!strcmp(how, "exec"))
			execute_anew(words, number);
		else if (!strcmp(how, "fork"))
			in_children(number);
		else if (!strcmp(how, "threads"))
			in_threads(number);
		else
			return 2;
		say("done");
	}
	return 0;
}
