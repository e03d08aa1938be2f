// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
        "Usage: async-server --cert FILE --key FILE [OPTION…]\n"
        "An HTTPS server on 127.0.0.1 for trying OpenSSL's async jobs. Prints \"port N\" when it serves, "
        "one line of JSON with\n"
        "what it has counted for SIGUSR1, and the same at its end, for SIGTERM or SIGINT.\n"
        "  --cert FILE               certificate chain, PEM\n"
        "  --key FILE                its private key, PEM\n"
        "  --port N                  0, the default, takes a free one\n"
        "  --async                   SSL_MODE_ASYNC: TLS calls run as jobs, which an engine can pause\n"
        "  --lazy                    shake hands within the first SSL_read, without SSL_do_handshake\n"
        "  --jobs N                  the most jobs in flight, by thread (default 0: no limit)\n"
        "  --poll-ms N               resume each paused job every N ms, done or not, instead of when its\n"
        "                            wait descriptor is readable\n"
        "  --impatient               end a connection whose client goes while its job is paused; else the job ends first\n"
        "  --engine FILE|ID          use this OpenSSL engine for all that it offers\n"
        "  --engine-ctrl NAME:VALUE  a control command for it, before it starts (repeatable)\n"
        "  --engine-key              let the engine load the key, with FILE as the key's name\n"
        "  --provider FILE           load the key by this OpenSSL provider, which does all that is done with it\n"
        "  --tls1.2, --tls1.3        only this version\n"
        "  --groups LIST             key exchange groups, such as X25519:P-256\n"
        "  --resume                  let clients resume sessions; else every handshake is a full one\n"
        "  --requests N              close a connection after N requests (default 1000000)\n"
        "  --threads N               event loops, each a thread (default 1)\n"
        "  --connections N           the most open connections, by thread (default 4096)\n";

// Every option is a field of struct options.
enum kind { TEXT, FLAG, NUMBER, CONTROL };

static const struct choice {
	const char *name;
	enum kind kind;
	size_t offset;
	long minimum, maximum;
} choices[] = {
        {"cert", TEXT, offsetof(struct options, certificate), 0, 0},
        {"key", TEXT, offsetof(struct options, key), 0, 0},
        {"port", NUMBER, offsetof(struct options, port), 0, 65535},
        {"async", FLAG, offsetof(struct options, async), 0, 0},
        {"lazy", FLAG, offsetof(struct options, lazy), 0, 0},
        {"impatient", FLAG, offsetof(struct options, impatient), 0, 0},
        {"jobs", NUMBER, offsetof(struct options, jobs), 0, 100000},
        {"poll-ms", NUMBER, offsetof(struct options, poll_ms), 1, 10000},
        {"engine", TEXT, offsetof(struct options, engine), 0, 0},
        {"engine-ctrl", CONTROL, 0, 0, 0},
        {"engine-key", FLAG, offsetof(struct options, engine_key), 0, 0},
        {"provider", TEXT, offsetof(struct options, provider), 0, 0},
        {"tls1.2", FLAG, offsetof(struct options, tls1_2), 0, 0},
        {"tls1.3", FLAG, offsetof(struct options, tls1_3), 0, 0},
        {"groups", TEXT, offsetof(struct options, groups), 0, 0},
        {"resume", FLAG, offsetof(struct options, resume), 0, 0},
        {"requests", NUMBER, offsetof(struct options, requests), 1, 1000000000},
        {"threads", NUMBER, offsetof(struct options, threads), 1, 64},
        {"connections", NUMBER, offsetof(struct options, connections), 1, 100000},
};
enum { CHOICES = sizeof(choices) / sizeof(*choices) };

static _Noreturn void misuse(const char *what)
{
	fprintf(stderr, "async-server: %s; see --help\n", what);
	exit(2);
}

static long number(const struct choice *choice)
{
	char *end;

	errno = 0;
	long value = strtol(optarg, &end, 10);
	if (!errno && end != optarg && !*end && value >= choice->minimum && value <= choice->maximum)
		return value;
	fprintf(stderr, "async-server: --%s takes a number from %ld to %ld; see --help\n", choice->name, choice->minimum,
	        choice->maximum);
	exit(2);
}

static void add_control(struct options *options)
{
	if (!strchr(optarg, ':'))
		misuse("--engine-ctrl takes NAME:VALUE");
	if (options->control_count == MAX_CONTROLS)
		misuse("too many --engine-ctrl");
	options->controls[options->control_count++] = optarg;
}

static void take(struct options *options, const struct choice *choice)
{
	void *field = (char *)options + choice->offset;

	if (choice->kind == TEXT)
		*(const char **)field = optarg;
	else if (choice->kind == FLAG)
		*(bool *)field = true;
	else if (choice->kind == NUMBER)
		*(long *)field = number(choice);
	else
		add_control(options);
}

static _Noreturn void help(void)
{
	fputs(usage, stdout);
	exit(0);
}

void options__parse(struct options *options, int argc, char **argv)
{
	struct option names[CHOICES + 2] = {[CHOICES] = {"help", no_argument, NULL, 'h'}};
	int option, index;

	for (int i = 0; i < CHOICES; i++)
		names[i] = (struct option){choices[i].name, choices[i].kind == FLAG ? no_argument : required_argument, NULL, 0};
	*options = (struct options){.requests = 1000000, .threads = 1, .connections = 4096};
	while ((option = getopt_long(argc, argv, "h", names, &index)) != -1) {
		if (option == 'h')
			help();
		if (option == '?')
			exit(2); // getopt has said why.
		take(options, &choices[index]);
	}
	if (optind < argc)
		misuse("it takes options only");
	if (!options->certificate || !options->key)
		misuse("--cert and --key are needed");
	if ((options->engine_key || options->control_count) && !options->engine)
		misuse("--engine-key and --engine-ctrl need --engine");
	if (options->engine && options->provider)
		misuse("--engine and --provider exclude each other");
	if (options->tls1_2 && options->tls1_3)
		misuse("--tls1.2 and --tls1.3 exclude each other");
}
