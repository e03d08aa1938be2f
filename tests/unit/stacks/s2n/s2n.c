/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with the names that s2n-tls's have, on connections of a layout of their own. With -DWITH_MAIN a program that prints
 * how far from its thread pointer s2n_errno lies.
 */
#include <stdint.h>
#include <stdio.h>

#define NEVER_INLINED __attribute__((noinline, visibility("default")))

struct stuffer {
	uint8_t *memory;
	uint32_t size, allocated;
	uint64_t flags;
	uint32_t read, written;
	uint32_t tainted;
};

struct connection {
	uint8_t flags, managed;
	int *socket;
	int mode;
	uint8_t version;
	const struct suite **suite;
	uint32_t type, key;
	struct stuffer output, alert;
	uint64_t sent;
	char name[64], protocol[64];
};

struct suite {
	uint64_t flags;
	const char *name;
	uint8_t number[2];
};

__thread long others[3];
__thread int s2n_errno;

NEVER_INLINED int *s2n_errno_location(void)
{
	return &s2n_errno;
}

NEVER_INLINED const char *s2n_strerror_name(int error)
{
	switch (error) {
	case 4 << 26:
		return "S2N_ERR_ALERT";
	case 5 << 26:
		return "S2N_ERR_ENCRYPT";
	case (5 << 26) + 1:
		return "S2N_ERR_BAD_MESSAGE";
	case (7 << 26) + 1:
		return "S2N_ERR_MISUSE";
	}
	return "Internal s2n error";
}

NEVER_INLINED int s2n_connection_wipe(struct connection *connection)
{
	int mode = connection->mode;

	*connection = (struct connection){0};
	connection->mode = mode;
	return 0;
}

NEVER_INLINED int s2n_flush(struct connection *connection, int *blocked)
{
	*blocked = 2;
	if (connection->output.read != connection->output.written)
		return -1;
	*blocked = 0;
	return 0;
}

NEVER_INLINED uint64_t s2n_connection_get_wire_bytes_out(struct connection *connection)
{
	return connection && !(connection->flags & 2) ? connection->sent : 0;
}

NEVER_INLINED int s2n_connection_get_actual_protocol_version(struct connection *connection)
{
	return connection ? connection->version : -1;
}

NEVER_INLINED int s2n_connection_get_cipher_iana_value(struct connection *connection, uint8_t *first, uint8_t *second)
{
	if (!connection || !connection->suite || !*connection->suite)
		return -1;
	*first = (*connection->suite)->number[0];
	*second = (*connection->suite)->number[1];
	return 0;
}

NEVER_INLINED int s2n_connection_is_session_resumed(struct connection *connection)
{
	if (!connection || (connection->type & 3) != 1)
		return 0;
	return connection->version < 34 || connection->key == 0;
}

NEVER_INLINED int s2n_connection_get_read_fd(struct connection *connection, int *descriptor)
{
	if (!connection || !(connection->managed & WHICH_BIT) || !connection->socket)
		return -1;
	*descriptor = *connection->socket;
	return 0;
}

NEVER_INLINED const char *s2n_get_server_name(struct connection *connection)
{
	return connection && connection->name[0] ? connection->name : NULL;
}

NEVER_INLINED const char *s2n_get_application_protocol(struct connection *connection)
{
	return connection && connection->protocol[0] ? connection->protocol : NULL;
}

NEVER_INLINED int s2n_connection_get_alert(struct connection *connection)
{
	if (!connection || connection->alert.written - connection->alert.read != 2)
		return -1;
	return connection->alert.memory[1];
}

NEVER_INLINED int s2n_negotiate(struct connection *connection, int *blocked)
{
	return s2n_flush(connection, blocked) ? -1 : connection->mode;
}

#ifdef WITH_MAIN
int main(void)
{
	struct connection connection = {0};
	int blocked = 0;

	printf("%ld\n", (long)((char *)__builtin_thread_pointer() - (char *)s2n_errno_location()));
	return s2n_negotiate(&connection, &blocked) + (others[0] != 0);
}
#endif
