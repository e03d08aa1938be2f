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

NEVER_INLINED int madeup_handshake(struct connection *connection)
{
	if (connection->padding[0] > 7)
		return -1;
	connection->waits_for = madeup_protocol(connection) == 3;
	return connection->waits_for ? -1 : 1;
}

NEVER_INLINED int madeup_read(struct connection *connection, char *buffer, int size)
{
	for (int at = 0; at < size; at++)
		buffer[at] = (char)(madeup_is_server(connection) + at);
	return connection->waits_for ? -1 : size;
}
