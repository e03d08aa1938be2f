/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is asked of a connection's stack: the only place that tells one from another, by the number in its library's layout. */
#ifndef STACKS_STACKS_BPF_H
#define STACKS_STACKS_BPF_H

#include "handshake.h"
#include "stacks/go.bpf.h"
#include "stacks/list.bpf.h"

/* How a call ended that didn't succeed. */
static __always_inline struct verdict judge_ssl(__u64 ssl, __s32 returned, const struct ssll_library *library)
{
	__u32 rwstate = 0, *code = NULL;

	if (ssl && is_connection(ssl, library) && read_rwstate(ssl, library, &rwstate))
		code = &rwstate;
	switch (library->stack) {
#define SSLL_STACK(NUMBER, name, ...)                                                                                          \
	case SSLL_STACK_##NUMBER:                                                                                              \
		return judge_##name(ssl, returned, code, library);
#include "stacks/list.bpf.h"
#undef SSLL_STACK
	}
	return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
}

/* The same, by what the function does as well: output of s2n-tls that is still to go out isn't what a read waits for. */
static __always_inline struct verdict judge_call(
        __u64 ssl, __s32 returned, __u32 convention, const struct ssll_library *library)
{
	struct verdict verdict = judge_ssl(ssl, returned, library);

	if (library->stack == SSLL_STACK_S2N && convention == SSLL_SSL_IO && verdict.wait == SSLL_WAIT_WINDOW)
		return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	return verdict;
}

/*
 * How a call ended that raised an error of the library's. Since OpenSSL 3.2 what isn't TLS at all leaves no mark in the SSL, as
 * no alert is sent: only an error in the queue.
 */
static __always_inline struct verdict judge_raised(void)
{
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* Whether the call has come back because the job that it runs in is paused. */
static __always_inline bool is_job_paused(__u64 ssl, const struct ssll_library *library)
{
	__u32 rwstate = 0;

	return library->stack == SSLL_STACK_OPENSSL && read_int(ssl, library->rwstate, &rwstate) &&
	       rwstate == OPENSSL_ASYNC_PAUSED;
}

/* Whether each further call fails where a handshake has failed, so that it begins no other. */
static __always_inline bool keeps_failing(const struct ssll_library *library)
{
	switch (library->stack) {
#define SSLL_STACK(NUMBER, name, error_library, keeps_failing)                                                                 \
	case SSLL_STACK_##NUMBER:                                                                                              \
		return keeps_failing;
#include "stacks/list.bpf.h"
#undef SSLL_STACK
	}
	return false;
}

/* Whether who frees a connection may only give back one of several references, while calls on it go on. */
static __always_inline bool counts_references(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_OPENSSL || library->stack == SSLL_STACK_BORINGSSL ||
	       library->stack == SSLL_STACK_GO;
}

/* Whether the connection says that its handshake is over, so that a call which makes one makes none. Of s2n-tls, whose calls
 * say 0 again then, it has sent something: its handshake is over, or under way. */
static __always_inline bool has_shaken_hands(__u64 ssl, const struct ssll_library *library)
{
	__u64 sent = 0;

	if (library->stack == SSLL_STACK_WOLFSSL)
		return has_wolfssl_shaken_hands(ssl, library);
	return library->stack == SSLL_STACK_S2N && library->state >= 0 &&
	       !bpf_probe_read_user(&sent, sizeof(sent), (void *)(ssl + library->state)) && sent;
}

/* Whether a call that has succeeded leaves the peer's last message to a later one, as where there is early data. */
static __always_inline bool awaits_finished(__u64 ssl, const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_WOLFSSL && !may_wolfssl_be_done(ssl, library);
}

/* Whether a connection's version is only a wish of this side's until a cipher suite is chosen. */
static __always_inline bool chooses_version_with_cipher(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_WOLFSSL || library->stack == SSLL_STACK_S2N;
}

/* Whether a connection's version is that of its handshake by now, and not one that this side would like to have. */
static __always_inline bool has_agreed_on_version(__u64 ssl, const struct ssll_library *library)
{
	return library->stack != SSLL_STACK_MBEDTLS || is_mbedtls_over(ssl, library, true);
}

/* Whether a call's error is known by its `code`: what the call has returned, or what its connection or its thread holds. */
static __always_inline bool tells_error(__u64 ssl, const struct ssll_library *library, __u32 *code)
{
	if (library->stack == SSLL_STACK_WOLFSSL || library->stack == SSLL_STACK_S2N)
		return read_rwstate(ssl, library, code);
	return library->stack == SSLL_STACK_GNUTLS || library->stack == SSLL_STACK_MBEDTLS;
}

/* The reason in an error word of such a code; `alert` is the last one that was received. */
static __always_inline __u32 reason_of(const struct ssll_library *library, __u32 code, __u32 alert)
{
	switch (library->stack) {
	case SSLL_STACK_MBEDTLS:
		return mbedtls_error(code, alert);
	case SSLL_STACK_S2N:
		return s2n_error(code, alert);
	case SSLL_STACK_WOLFSSL:
		return wolfssl_error(code, alert);
	}
	return gnutls_error(code, alert);
}

/* The last alert that this side has sent, where the connection keeps it and it was fatal; false for none. */
static __always_inline bool read_sent_alert(__u64 ssl, const struct ssll_library *library, __u32 *alert)
{
	const struct ssll_path *path = &library->paths[SSLL_PLACE_OF_ALERT];

	return library->stack == SSLL_STACK_WOLFSSL && path->length == 1 &&
	       read_int(ssl, path->offsets[0] + WOLFSSL_SENT_LEVEL, alert) && *alert == WOLFSSL_FATAL &&
	       read_int(ssl, path->offsets[0] + WOLFSSL_SENT_ALERT, alert) && *alert < WOLFSSL_ALERTS;
}

/* Whether the group 0 is that of none that is known. */
static __always_inline bool has_group_zero(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_WOLFSSL;
}

/* Makes TLS' number of a version, as the library keeps it; false of one that isn't TLS. */
static __always_inline bool to_tls_version(const struct ssll_library *library, __u64 *version)
{
	if (library->stack == SSLL_STACK_GNUTLS)
		*version = gnutls_version(*version);
	else if (library->stack == SSLL_STACK_MBEDTLS)
		*version = mbedtls_version(*version);
	else if (library->stack == SSLL_STACK_S2N)
		*version = s2n_version(*version);
	else if (library->stack == SSLL_STACK_WOLFSSL)
		*version = wolfssl_version(*version);
	else
		return true;
	return *version != 0;
}

enum {
	OPENSSL_CIPHERS = 0x03000000,
};

/* OpenSSL's identifier of the cipher with this number in TLS; 0 for none. */
static __always_inline __u64 tls_cipher(__u64 cipher)
{
	return cipher ? cipher | OPENSSL_CIPHERS : 0;
}

/* Makes OpenSSL's identifier of a cipher, as the library keeps it; false of one that isn't chosen yet. */
static __always_inline bool to_cipher(const struct ssll_library *library, __u64 *cipher)
{
	bool chosen = *cipher || (library->stack != SSLL_STACK_S2N && library->stack != SSLL_STACK_WOLFSSL);

	if (library->stack == SSLL_STACK_GNUTLS || library->stack == SSLL_STACK_S2N || library->stack == SSLL_STACK_WOLFSSL)
		*cipher = gnutls_cipher(*cipher);
	if (library->stack == SSLL_STACK_GO || library->stack == SSLL_STACK_BORINGSSL || library->stack == SSLL_STACK_MBEDTLS)
		*cipher = tls_cipher(*cipher);
	return chosen;
}

/* Whether what a library keeps of it says that a session was resumed; s2n-tls has a bit for full handshakes. */
static __always_inline bool to_resumed(const struct ssll_library *library, __u64 kept)
{
	return library->stack == SSLL_STACK_S2N ? !kept : kept;
}

/* Which side a connection is on; false where that can't be read. */
static __always_inline bool read_side(__u64 ssl, const struct ssll_library *library, bool *server)
{
	return library->stack == SSLL_STACK_GO ? read_go_server(ssl, library, server) : read_server(ssl, library, server);
}

/* Whether a connection's own field tells the server's name in any version, and only its absence isn't certain before the
 * handshake has succeeded. */
static __always_inline bool keeps_server_name(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_GO;
}

/* Whether a server's connection has the name that the client asked for in one place, whether a session is resumed or not. */
static __always_inline bool keeps_name_in_one_place(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_BORINGSSL;
}

/* Where the path to a connection's descriptor begins; 0 where what it reads from is no socket, as far as its type tells. */
static __always_inline __u64 transport_of(__u64 ssl, const struct ssll_library *library)
{
	if (library->stack == SSLL_STACK_MBEDTLS && !reads_mbedtls_socket(ssl, library))
		return 0;
	return library->stack == SSLL_STACK_GO ? go_socket_of(ssl, library) : ssl;
}

/* Whether a connection has a number that says how far its handshake is. */
static __always_inline bool counts_states(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_MBEDTLS;
}

/* Whether a handshake that is to be made anew leaves nothing behind: no call goes on with it. */
static __always_inline bool begins_anew(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_MBEDTLS;
}

/* Whether the protocol that was agreed on ends in a zero byte; of others its length is known. */
static __always_inline bool ends_protocol_in_zero(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_MBEDTLS;
}

/*
 * Whether what a server keeps of its handshakes is there to be read. Before TLS 1.3 a client of GnuTLS compares sessions to
 * tell whether it has resumed one.
 */
static __always_inline bool keeps_server_state(__u64 ssl, const struct ssll_library *library)
{
	bool server = true;

	return library->stack != SSLL_STACK_GNUTLS || (read_server(ssl, library, &server) && server);
}

/* Whether the mode tells what a client is asked for: a client's own is about the server's certificate. */
static __always_inline bool tells_certificate(__u64 ssl, const struct ssll_library *library)
{
	bool server = false;

	return read_side(ssl, library, &server) && server;
}

/* Whether the other side is asked for a certificate, by the library's mode. */
static __always_inline bool asks_for_certificate(const struct ssll_library *library, __u64 mode)
{
	bool any_mode = library->stack == SSLL_STACK_GNUTLS || library->stack == SSLL_STACK_GO;

	return any_mode ? mode != 0 : mode & OPENSSL_VERIFY_PEER;
}

/* Whether that side has proved itself by a certificate, where the library has such a place. Another way leaves something else
 * where certificates are. */
static __always_inline bool are_certificates(__u64 credentials)
{
	return (__u32)credentials == GNUTLS_CREDENTIALS_CERTIFICATE;
}

/* Whether what an extension has brought lies behind a pointer that is NULL without it, and names in it have a length. */
static __always_inline bool keeps_extensions(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_GNUTLS;
}

/* Whether a connection has these texts within it, each ended by a zero byte. */
static __always_inline bool keeps_texts_inside(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_S2N;
}

/* Whether the algorithm 0 is that of no signature. */
static __always_inline bool has_signature_zero(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_GNUTLS;
}

/* Whether a handshake is only seen to be under way from within its first call on. */
static __always_inline bool begins_within_call(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_GNUTLS || library->stack == SSLL_STACK_S2N;
}

/* Whether each connection whose program takes its messages by functions shakes hands over QUIC. Of BoringSSL's, programs make
 * some only to look into a ClientHello. */
static __always_inline bool shakes_hands_by_functions(const struct ssll_library *library)
{
	return library->stack == SSLL_STACK_GNUTLS;
}

/* The number of the library in its own error codes. */
static __always_inline __u32 own_error_library(const struct ssll_library *library)
{
	switch (library->stack) {
#define SSLL_STACK(NUMBER, name, error_library, keeps_failing)                                                                 \
	case SSLL_STACK_##NUMBER:                                                                                              \
		return error_library;
#include "stacks/list.bpf.h"
#undef SSLL_STACK
	}
	return 0;
}

#endif
