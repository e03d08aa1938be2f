/* SPDX-License-Identifier: Apache-2.0 */
/* A program that makes calls of made_up.c: at each line that it reads, those of so many connections of either kind. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct connection {
	long script;
	long padding[2];
	int waits_for, server, protocol;
};

int madeup_handshake(struct connection *connection);
int madeup_read(struct connection *connection, char *buffer, int size);
void madeup_free(struct connection *connection);

/* Shakes hands until that has succeeded or failed. */
static int shake(struct connection *connection)
{
	int result;

	while ((result = madeup_handshake(connection)) == -28 || result == -29)
		usleep(1000);
	return result;
}

int main(void)
{
	char line[32], buffer[8];

	while (puts("ready"), fflush(stdout), fgets(line, sizeof(line), stdin)) {
		for (int left = atoi(line); left; left--) {
			struct connection good = {.script = 21, .server = 1, .protocol = 0x0304};
			struct connection bad = {.script = 31, .server = 1, .protocol = 0x0303};

			if (shake(&good) || madeup_read(&good, buffer, sizeof(buffer)) < 1 || madeup_read(&good, buffer, 0))
				return 1;
			madeup_free(&good);
			if (shake(&bad) >= 0)
				return 1;
			madeup_free(&bad);
		}
	}
	return 0;
}
