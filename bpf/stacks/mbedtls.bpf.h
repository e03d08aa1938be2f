/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mbed TLS: what a call returns says how it ended; a context says how far its handshake is, its configuration which side it is
 * on. */
#ifdef SSLL_STACK
SSLL_STACK(MBEDTLS, mbedtls, SSLL_ERROR_LIBRARY_MBEDTLS, true)
#elif !defined(STACKS_MBEDTLS_BPF_H)
#define STACKS_MBEDTLS_BPF_H

#include "stacks/connection.bpf.h"

/* MBEDTLS_ERR_* of mbedtls/ssl.h and mbedtls/net_sockets.h. */
enum {
	MBEDTLS_NET_RECV_FAILED = -0x004c,
	MBEDTLS_NET_SEND_FAILED = -0x004e,
	MBEDTLS_NET_CONN_RESET = -0x0050,
	MBEDTLS_ASYNC_IN_PROGRESS = -0x6500,
	MBEDTLS_CLIENT_RECONNECT = -0x6780,
	MBEDTLS_TIMEOUT = -0x6800,
	MBEDTLS_WANT_WRITE = -0x6880,
	MBEDTLS_WANT_READ = -0x6900,
	MBEDTLS_HELLO_VERIFY_REQUIRED = -0x6a80,
	MBEDTLS_WAITING_SERVER_HELLO_RENEGO = -0x6b00,
	MBEDTLS_CRYPTO_IN_PROGRESS = -0x7000,
	MBEDTLS_CONN_EOF = -0x7280,
	MBEDTLS_FATAL_ALERT_MESSAGE = -0x7780,
	MBEDTLS_PEER_CLOSE_NOTIFY = -0x7880,
	MBEDTLS_RECEIVED_NEW_SESSION_TICKET = -0x7b00, /* since 3.0: before, these two were of a handshake's failures */
	MBEDTLS_RECEIVED_EARLY_DATA = -0x7c00,
	MBEDTLS_HIGH_CODES = 0x7f80,  /* a code is the sum of one that says what failed, and perhaps one of what is below it */
	MBEDTLS_FIRST_ALERT = 0x8000, /* in error words: an alert that was received */
	MBEDTLS_ALERTS = 256,
	MBEDTLS_3 = 3,
	MBEDTLS_LAST_MINOR = 4, /* before 3.0 a version is its minor number, of which 0 says nothing */
};

static __always_inline __u32 mbedtls_field(const struct ssll_library *library, enum ssll_mbedtls_field field)
{
	return library->fields[field];
}

/* Codes of 3.0 and later that end nothing: a message came after the handshake, or data within it. */
static __always_inline bool is_mbedtls_3_notice(__s32 returned, const struct ssll_library *library)
{
	return (returned == MBEDTLS_RECEIVED_NEW_SESSION_TICKET || returned == MBEDTLS_RECEIVED_EARLY_DATA) &&
	       mbedtls_field(library, SSLL_MBEDTLS_FIELD_MAJOR) >= MBEDTLS_3;
}

static __always_inline struct verdict judge_mbedtls(
        __u64 ssl, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	(void)ssl;
	(void)code;
	if (is_mbedtls_3_notice(returned, library))
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	switch (returned) {
	case MBEDTLS_WANT_READ:
	case MBEDTLS_TIMEOUT: /* the application may call again */
		return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case MBEDTLS_WANT_WRITE:
		return retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	case MBEDTLS_ASYNC_IN_PROGRESS:
		return retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC);
	case MBEDTLS_CRYPTO_IN_PROGRESS: /* it is to be called again at once */
	case MBEDTLS_WAITING_SERVER_HELLO_RENEGO:
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case MBEDTLS_CLIENT_RECONNECT:
	case MBEDTLS_HELLO_VERIFY_REQUIRED: /* the client is to show by a cookie that it is where it says */
		return retry(SSLL_WAIT_HANDSHAKE, SSLL_REASON_WANT_RENEGOTIATE);
	case MBEDTLS_PEER_CLOSE_NOTIFY:
		return closed(SSLL_REASON_ZERO_RETURN);
	case 0: /* of a read: the transport has ended */
	case MBEDTLS_CONN_EOF:
	case MBEDTLS_NET_RECV_FAILED:
	case MBEDTLS_NET_SEND_FAILED:
	case MBEDTLS_NET_CONN_RESET:
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* The reason in an error word; `alert` is the one that was received last. */
static __always_inline __u32 mbedtls_error(__s32 returned, __u32 alert)
{
	__u32 code = -(__u32)returned;

	if (returned == MBEDTLS_FATAL_ALERT_MESSAGE && alert < MBEDTLS_ALERTS)
		return MBEDTLS_FIRST_ALERT + alert;
	return code & MBEDTLS_HIGH_CODES ? code & MBEDTLS_HIGH_CODES : code;
}

/* TLS' number of a version; 0 where there is none yet. */
static __always_inline __u32 mbedtls_version(__u32 version)
{
	return version && version <= MBEDTLS_LAST_MINOR ? 0x0300 + version : version;
}

/* How far a context's handshake is: it begins with 0, and is over where it is `over`. False where that can't be read. */
static __always_inline bool read_mbedtls_state(__u64 ssl, const struct ssll_library *library, __u32 *state, __u32 *over)
{
	*over = mbedtls_field(library, SSLL_MBEDTLS_FIELD_OVER);
	return *over && read_int(ssl, mbedtls_field(library, SSLL_MBEDTLS_FIELD_STATE), state);
}

/* Whether a call begins a handshake. Past its end there are states of messages that come later, as a client's tickets. */
static __always_inline bool begins_mbedtls(__u64 ssl, const struct ssll_library *library)
{
	__u32 state = 0, over = 0;

	return !read_mbedtls_state(ssl, library, &state, &over) || state < over;
}

/* Whether a handshake had begun before. */
static __always_inline bool is_mbedtls_under_way(__u64 ssl, const struct ssll_library *library)
{
	__u32 state = 0, over = 0;

	return read_mbedtls_state(ssl, library, &state, &over) && state;
}

/* Whether the handshake is over; `otherwise` where that can't be read. */
static __always_inline bool is_mbedtls_over(__u64 ssl, const struct ssll_library *library, bool otherwise)
{
	__u32 state = 0, over = 0;

	return read_mbedtls_state(ssl, library, &state, &over) ? state == over : otherwise;
}

/* The functions by which a context writes and reads, in the order in which mbedtls_ssl_set_bio() sets them. */
struct mbedtls_functions {
	__u64 send, receive, receive_timeout;
};

static __always_inline bool read_mbedtls_functions(
        __u64 ssl, const struct ssll_library *library, struct mbedtls_functions *functions)
{
	__u64 send = ssl + mbedtls_field(library, SSLL_MBEDTLS_FIELD_SEND);
	__u64 receive = ssl + mbedtls_field(library, SSLL_MBEDTLS_FIELD_RECEIVE);
	__u64 timeout = ssl + mbedtls_field(library, SSLL_MBEDTLS_FIELD_RECEIVE_TIMEOUT);

	return !bpf_probe_read_user(&functions->send, sizeof(functions->send), (void *)send) &&
	       !bpf_probe_read_user(&functions->receive, sizeof(functions->receive), (void *)receive) &&
	       !bpf_probe_read_user(&functions->receive_timeout, sizeof(functions->receive_timeout), (void *)timeout);
}

/*
 * Whether what a context reads from is a socket of the library's own: its functions are mbedtls_net_send and mbedtls_net_recv,
 * or mbedtls_net_recv_timeout. They are known by how far they are from each other, wherever the library was loaded.
 * Not inlined, as its callers have little stack left.
 */
static __noinline bool reads_mbedtls_socket(__u64 ssl, const struct ssll_library *library)
{
	struct mbedtls_functions functions = {};
	__u64 base;

	if (!read_mbedtls_functions(ssl, library, &functions) || !functions.send)
		return false;
	base = functions.send - mbedtls_field(library, SSLL_MBEDTLS_FIELD_NET_SEND);
	if (functions.receive_timeout) /* it goes first */
		return functions.receive_timeout - base == mbedtls_field(library, SSLL_MBEDTLS_FIELD_NET_RECEIVE_TIMEOUT);
	return functions.receive - base == mbedtls_field(library, SSLL_MBEDTLS_FIELD_NET_RECEIVE);
}

#endif
