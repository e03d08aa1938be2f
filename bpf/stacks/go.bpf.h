/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Go's crypto/tls: what its connections hold, and how the error that a call returns tells its outcome. */
#ifndef STACKS_GO_BPF_H
#define STACKS_GO_BPF_H

#include <stdbool.h>

#include "common/registers.bpf.h"
#include "stacks/connection.bpf.h"

/* What an interface holds: the itab tells the type, and the data is its value, or a pointer to it. */
struct go_interface {
	__u64 itab;
	__u64 data;
};

/* A Go string, with which an *errors.errorString begins. */
struct go_string {
	__u64 text;
	__u64 size;
};

/* The text of io.EOF, by which the Read of a connection tells that the peer has closed it. */
enum {
	GO_EOF_SIZE = 3,
	GO_UNEXPECTED_EOF_SIZE = 14, /* of io.ErrUnexpectedEOF */
	GO_EOF = 'E' | 'O' << 8 | 'F' << 16,
	GO_HELD_ERROR = 64,    /* in net.OpError */
	GO_INTERFACE_DATA = 8, /* in an interface, behind its itab */
	GO_ITAB_TYPE = 8,
	GO_TYPE_HASH = 16, /* the same wherever the program is loaded; itabs that are made at run time have no copy of it */
};

/* The first word of an error, by its number among the results: reads and writes return a number of bytes before it. */
static __always_inline __u32 go_error_word(__u32 convention)
{
	return convention == SSLL_SSL_IO;
}

/* Whether an exit site is the entry of a function that the one which ends has deferred. */
static __always_inline bool is_deferred(__u64 cookie)
{
	return field(cookie, SSLL_COOKIE_STACK, 16);
}

static __always_inline bool is_go_eof(__u64 error)
{
	struct go_string string = {};
	__u32 text = 0;

	return error && !bpf_probe_read_user(&string, sizeof(string), (void *)error) && string.size == GO_EOF_SIZE &&
	       !bpf_probe_read_user(&text, GO_EOF_SIZE, (void *)string.text) && text == GO_EOF;
}

/*
 * Whether a *net.OpError holds the error of a deadline that has passed. Both are known by the distance of their itabs, wherever
 * the program was loaded. Of a Write it would be wrapped, as no further one may follow.
 */
static __always_inline bool is_go_deadline(__u64 itab, __u64 error, const struct ssll_library *library)
{
	__u64 held = 0;

	return library->deadline && !bpf_probe_read_user(&held, sizeof(held), (void *)(error + GO_HELD_ERROR)) &&
	       held - itab == (__u64)(__s64)library->deadline;
}

/* What a call returns: a number, of reads and writes, and an error. */
struct go_returned {
	__u64 count;
	struct go_interface error;
};

/* The same at an exit site: in registers at a `ret`, or at a function that it defers in slots of its frame. */
static __always_inline bool read_go_results(const struct pt_regs *ctx, __u64 cookie, struct go_returned *returned)
{
	__u32 word = go_error_word(field(cookie, SSLL_COOKIE_CONVENTION, 4));
	__u64 count = REGISTER(ctx, STACK_POINTER) + sizeof(count) * field(cookie, SSLL_DEFERRED_COOKIE_COUNT_AT, 5);
	__u64 error = count + sizeof(count) * field(cookie, SSLL_DEFERRED_COOKIE_ERROR_BEHIND, 4);

	if (is_deferred(cookie))
		return !bpf_probe_read_user(&returned->count, sizeof(returned->count), (void *)count) &&
		       !bpf_probe_read_user(&returned->error, sizeof(returned->error), (void *)error);
	returned->count = go_result(ctx, 0);
	returned->error.itab = go_result(ctx, word);
	returned->error.data = go_result(ctx, word + 1);
	return true;
}

/* How a call ended that returned an error. */
static __always_inline struct verdict judge_go(
        const struct go_interface *error, __u32 convention, const struct ssll_library *library)
{
	if (convention == SSLL_SSL_IO && is_go_eof(error->data))
		return closed(SSLL_REASON_ZERO_RETURN);
	if (convention == SSLL_SSL_IO && is_go_deadline(error->itab, error->data, library))
		return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	return failure(SSLL_END_ERROR, SSLL_REASON_NONE);
}

/* The hash of the type of what an interface with this itab holds; 0 where it holds nothing, or that can't be read. */
static __always_inline __u32 go_type_hash(__u64 itab)
{
	__u64 type = 0;
	__u32 hash = 0;

	if (itab && !bpf_probe_read_user(&type, sizeof(type), (void *)(itab + GO_ITAB_TYPE)) && type)
		bpf_probe_read_user(&hash, sizeof(hash), (void *)(type + GO_TYPE_HASH));
	return hash;
}

static __always_inline bool is_go_type(__u32 hash, const struct ssll_library *library, enum ssll_go_type type)
{
	return hash && hash == library->types[type];
}

/* Whether it is the hash of the type of pointers to one of Go's own sockets. */
static __always_inline bool is_go_socket(__u32 hash, const struct ssll_library *library)
{
	return is_go_type(hash, library, SSLL_GO_TYPE_TCP) || is_go_type(hash, library, SSLL_GO_TYPE_LOCAL);
}

/* Whether there is an interface at this address that holds one. */
static __always_inline bool holds_go_socket(__u64 interface, const struct ssll_library *library)
{
	__u64 itab = 0;

	return !bpf_probe_read_user(&itab, sizeof(itab), (void *)interface) && is_go_socket(go_type_hash(itab), library);
}

enum {
	GO_WRAPPERS = 2, /* around a socket, at most */
	GO_TYPE_KIND = 23,
	GO_KIND_MASK = 31,
	GO_INTERFACE = 20,
	GO_POINTER = 22,
	GO_STRUCT = 25,
	GO_POINTED_TYPE = 48, /* in the type of a pointer */
	GO_FIELDS = 56,       /* in the type of a struct: their address, and how many there are */
	GO_FIELD_COUNT = 64,
	GO_FIELD_TYPE = 8,
};

static __always_inline bool is_go_kind(__u64 type, __u8 kind)
{
	__u8 found = 0;

	return type && !bpf_probe_read_user(&found, sizeof(found), (void *)(type + GO_TYPE_KIND)) &&
	       (found & GO_KIND_MASK) == kind;
}

/* The pointer at this address; 0 where it can't be read. */
static __always_inline __u64 go_pointer_at(__u64 address)
{
	__u64 pointer = 0;

	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address);
	return pointer;
}

/* A struct around a connection, as the interface at an address holds it. */
struct go_wrapper {
	__u64 first;  /* the type of its first field; 0: it is none */
	bool is_held; /* it is that one pointer, which the interface has in place of the struct's address */
};

static __always_inline struct go_wrapper go_wrapper_in(__u64 interface)
{
	__u64 itab = go_pointer_at(interface), type = itab ? go_pointer_at(itab + GO_ITAB_TYPE) : 0, fields;
	bool is_pointed = is_go_kind(type, GO_POINTER);
	struct go_wrapper wrapper = {};

	if (is_pointed)
		type = go_pointer_at(type + GO_POINTED_TYPE);
	if (!is_go_kind(type, GO_STRUCT))
		return wrapper;
	fields = go_pointer_at(type + GO_FIELDS); /* 0 where it has none */
	wrapper.first = fields ? go_pointer_at(fields + GO_FIELD_TYPE) : 0;
	wrapper.is_held = !is_pointed && is_go_kind(wrapper.first, GO_POINTER) && go_pointer_at(type + GO_FIELD_COUNT) == 1;
	return wrapper;
}

/* Whether values of the type are pointers to one of Go's own sockets. */
static __always_inline bool is_go_socket_type(__u64 type, const struct ssll_library *library)
{
	__u32 hash = 0;

	return type && !bpf_probe_read_user(&hash, sizeof(hash), (void *)(type + GO_TYPE_HASH)) && is_go_socket(hash, library);
}

/*
 * The address of the interface that holds the socket which the connection reads from: that of the connection itself, whose conn
 * comes first, or that of what another package has put around the socket, where it comes first as well, as an embedded
 * net.Conn does, or an embedded *net.TCPConn: there the address is that of an interface whose data this pointer would be. 0 for
 * none. Not inlined: its callers have no stack to spare. Nor static: verified once, whatever calls it.
 */
__noinline __u64 go_socket_of(__u64 connection, const struct ssll_library *library)
{
	struct go_wrapper wrapper;
	bool is_socket;

	if (!library)
		return 0;
#pragma unroll
	for (__u32 i = 0; i <= GO_WRAPPERS; i++) {
		if (holds_go_socket(connection, library))
			return connection;
		if (i == GO_WRAPPERS)
			return 0;
		wrapper = go_wrapper_in(connection);
		is_socket = is_go_socket_type(wrapper.first, library);
		if (is_socket && wrapper.is_held)
			return connection;
		if (!is_socket && !is_go_kind(wrapper.first, GO_INTERFACE))
			return 0;
		if (bpf_probe_read_user(&connection, sizeof(connection), (void *)(connection + GO_INTERFACE_DATA)))
			return 0;
		if (is_socket)
			return connection - GO_INTERFACE_DATA;
	}
	return 0;
}

/* Whether the connection is a server's, by its isClient; false where that can't be read. */
static __always_inline bool read_go_server(__u64 connection, const struct ssll_library *library, bool *server)
{
	__u8 client = 0;

	if (library->server < 0 || bpf_probe_read_user(&client, sizeof(client), (void *)(connection + library->server)))
		return false;
	*server = !client;
	return true;
}

#endif
