// SPDX-License-Identifier: Apache-2.0
// The command line of fibers.c.
#include "fibers.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings settings = {.jobs = 10, .depth = 3, .pauses = 1, .rounds = 1, .threads = 1};

static const char usage[] =
        "Usage: fibers [OPTION…]\n"
        "  --stacks below|above|mixed  where the fibers' stacks lie, seen from the dispatcher's (default below)\n"
        "  --on main|thread            on which stack the dispatcher runs (default main)\n"
        "  --handshake outside|inside  SSL_do_handshake starts and resumes the job, or is called and paused in it (default "
        "outside)\n"
        "  --order fifo|lifo           the order in which paused jobs are resumed (default fifo)\n"
        "  --jobs N                    jobs in flight, by dispatcher (default 10)\n"
        "  --depth N                   levels of recursion of RSA_sign (default 3)\n"
        "  --pauses N                  pauses of each job (default 1)\n"
        "  --rounds N                  all of it N times on the same stacks (default 1; 0: until SIGTERM)\n"
        "  --threads N                 dispatchers, with --on thread (default 1)\n"
        "  --jumps N                   longjmp out of the calls N times, in each fiber and on the dispatcher's stack (default "
        "0)\n"
        "  --exits N                   end N threads inside the calls (default 0)\n"
        "  --wait                      print \"ready\", begin when a line comes in, and end when the input does\n";

static long number(const char *name, long minimum, long maximum)
{
	char *end;

	errno = 0;
	long value = strtol(optarg, &end, 10);
	if (!errno && end != optarg && !*end && value >= minimum && value <= maximum)
		return value;
	fprintf(stderr, "fibers: --%s takes a number from %ld to %ld\n", name, minimum, maximum);
	exit(2);
}

static int word(const char *name, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], optarg) == 0)
			return i;
	fprintf(stderr, "fibers: --%s doesn't take %s\n", name, optarg);
	exit(2);
}

static void take(int option, const char *name)
{
	static const char *const stacks[] = {"below", "above", "mixed", NULL}, *const on[] = {"main", "thread", NULL},
	                         *const handshake[] = {"outside", "inside", NULL}, *const order[] = {"fifo", "lifo", NULL};
	long *const numbers[] = {['j'] = &settings.jobs,
	        ['d'] = &settings.depth,
	        ['p'] = &settings.pauses,
	        ['r'] = &settings.rounds,
	        ['t'] = &settings.threads,
	        ['J'] = &settings.jumps,
	        ['x'] = &settings.exits};
	static const long minima[128] = {['j'] = 1, ['t'] = 1};
	static const long maxima[128] = {
	        ['j'] = 20000, ['d'] = 1000, ['p'] = 1000, ['r'] = 1000000000, ['t'] = 64, ['J'] = 100000, ['x'] = 100000};

	if (option == 's')
		settings.stacks = word(name, stacks);
	else if (option == 'o')
		settings.on_thread = word(name, on);
	else if (option == 'h')
		settings.inside = word(name, handshake);
	else if (option == 'f')
		settings.lifo = word(name, order);
	else if (option == 'w')
		settings.wait = true;
	else
		*numbers[option] = number(name, minima[option], maxima[option]);
}

void parse_options(int argc, char **argv)
{
	static const struct option names[] = {
	        {"stacks", 1, NULL, 's'},
	        {"on", 1, NULL, 'o'},
	        {"handshake", 1, NULL, 'h'},
	        {"order", 1, NULL, 'f'},
	        {"jobs", 1, NULL, 'j'},
	        {"depth", 1, NULL, 'd'},
	        {"pauses", 1, NULL, 'p'},
	        {"rounds", 1, NULL, 'r'},
	        {"threads", 1, NULL, 't'},
	        {"jumps", 1, NULL, 'J'},
	        {"exits", 1, NULL, 'x'},
	        {"wait", 0, NULL, 'w'},
	        {NULL, 0, NULL, 0},
	};
	int option, index;

	while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
		if (option == '?' || optind > argc) {
			fputs(usage, stderr);
			exit(2);
		}
		take(option, names[index].name);
	}
}
