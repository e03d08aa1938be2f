/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TLS library that there isn't, for its stack. Its functions return 0 or more where they succeed, and a negative code where
 * they don't, as GnuTLS's do; a read of 0 bytes is the end of the connection.
 */
#define NEVER_INLINED __attribute__((noinline, visibility("default")))

enum {
	MADEUP_AGAIN = -28, /* it waits for its peer */
	MADEUP_ASK = -29,   /* it waits for the application */
	MADEUP_FAILED = -5,
};

/* `script` says what the next calls return, from its lowest decimal on: 1 again, 2 ask, 3 failed; 0 success. */
struct connection {
	long script;
	long padding[2];
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
	long next = connection->script % 10;

	connection->script /= 10;
	connection->waits_for = next;
	return next == 1 ? MADEUP_AGAIN : next == 2 ? MADEUP_ASK : next ? MADEUP_FAILED : 0;
}

NEVER_INLINED void madeup_raise(int library, int reason)
{
	static volatile int last;

	last = library << 24 | reason;
}

NEVER_INLINED int madeup_handshake(struct connection *connection)
{
	int got = madeup_fetch(connection);

	if (got == MADEUP_FAILED)
		madeup_raise(1, 7);
	if (got)
		return got;
	connection->padding[1] = madeup_sign(connection, "key");
	return 0;
}

NEVER_INLINED int madeup_read(struct connection *connection, char *buffer, int size)
{
	int got = madeup_fetch(connection);

	if (got)
		return got;
	for (int at = 0; at < size; at++)
		buffer[at] = (char)(madeup_is_server(connection) + at);
	return size;
}

NEVER_INLINED void madeup_free(struct connection *connection)
{
	connection->protocol = 0;
}
