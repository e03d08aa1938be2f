/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS library that there isn't, for its stack. */
#define NEVER_INLINED __attribute__((noinline, visibility("default")))

struct connection {
	long padding[3];
	int waits_for, server, protocol;
};

NEVER_INLINED const char *madeup_version(void)
{
	return "madeup TLS 1.2.3";
}

NEVER_INLINED int madeup_waits_for(const struct connection *connection)
{
	return connection->waits_for;
}

NEVER_INLINED int madeup_is_server(const struct connection *connection)
{
	return connection->server;
}

NEVER_INLINED int madeup_protocol(const struct connection *connection)
{
	return connection->protocol;
}

NEVER_INLINED int madeup_sign(struct connection *connection, const char *key)
{
	return connection->protocol + *key;
}

NEVER_INLINED int madeup_fetch(struct connection *connection)
{
	return connection->waits_for + 1;
}

NEVER_INLINED void madeup_raise(int library, int reason)
{
	static volatile int last;

	last = library << 24 | reason;
}

NEVER_INLINED int madeup_handshake(struct connection *connection)
{
	if (connection->padding[0] > 7) {
		madeup_raise(1, 7);
		return -1;
	}
	connection->padding[1] = madeup_fetch(connection);
	connection->padding[2] = madeup_sign(connection, "key");
	connection->waits_for = madeup_protocol(connection) == 3;
	return connection->waits_for ? -1 : 1;
}

NEVER_INLINED int madeup_read(struct connection *connection, char *buffer, int size)
{
	for (int at = 0; at < size; at++)
		buffer[at] = (char)(madeup_is_server(connection) + at);
	return connection->waits_for ? -1 : size;
}
