// SPDX-License-Identifier: Apache-2.0
// The command line.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>

enum { MAX_CONTROLS = 16 };

struct options {
	long port;
	const char *certificate, *key, *groups;
	const char *engine;                 // an id, or the file of a dynamic engine
	const char *provider;               // the file of one
	const char *controls[MAX_CONTROLS]; // NAME:VALUE
	int control_count;
	bool tls1_2, tls1_3; // only this version; neither: both
	bool async, engine_key, resume, lazy, impatient;
	long requests; // the most in a connection
	long threads, connections, jobs;
	long poll_ms; // how often paused jobs are resumed to see whether they are done; 0: when their descriptor says so
};

// Fills `options`; on a mistake says what it was and ends the process with status 2.
void options__parse(struct options *options, int argc, char **argv);

#endif
