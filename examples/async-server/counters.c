// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

static const char *const call_names[CALLS] = {"SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown"};
static const char *const outcome_names[OUTCOMES] = {
        "success", "want_read", "want_write", "want_async", "want_async_job", "closed", "failure"};

static void write_call(const struct counters *counters, enum call call, FILE *out)
{
	fprintf(out, "\"%s\": {", call_names[call]);
	for (int outcome = 0; outcome < OUTCOMES; outcome++)
		fprintf(out, "%s\"%s\": %lu", outcome ? ", " : "", outcome_names[outcome], counters->calls[call][outcome]);
	fprintf(out, "}");
}

static unsigned long pauses(const struct counters *counters)
{
	unsigned long sum = 0;

	for (int call = 0; call < CALLS; call++)
		sum += counters->calls[call][WANT_ASYNC];
	return sum;
}

void counters__write(const struct counters *counters, FILE *out)
{
	fprintf(out, "\"accepted\": %lu, \"open\": %lu, \"ended\": %lu, ", counters->accepted, counters->open, counters->ended);
	fprintf(out, "\"handshakes\": %lu, \"resumed\": %lu, \"requests\": %lu, ", counters->handshakes, counters->resumed,
	        counters->requests);
	fprintf(out, "\"failed\": %lu, \"abandoned\": %lu, ", counters->failed, counters->abandoned);
	fprintf(out, "\"pauses\": %lu, \"calls\": {", pauses(counters));
	for (int call = 0; call < CALLS; call++) {
		if (call)
			fprintf(out, ", ");
		write_call(counters, call, out);
	}
	fprintf(out, "}");
}
