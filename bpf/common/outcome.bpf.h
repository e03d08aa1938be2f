/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a call ended, and why it did not succeed: the return value first, then what SSL_get_error would look at. */
#ifndef OUTCOME_BPF_H
#define OUTCOME_BPF_H

#include "ssllatency.h"
#include <bpf/bpf_helpers.h>

/* openssl/ssl.h, openssl/bio.h and ssl/statem.h, the same from 1.1.1 to 3.5. */
enum {
	OPENSSL_NOTHING = 1,
	OPENSSL_WRITING = 2, /* SSL_NOTHING … SSL_RETRY_VERIFY: what SSL_want returns */
	OPENSSL_READING = 3,
	OPENSSL_X509_LOOKUP = 4,
	OPENSSL_ASYNC_PAUSED = 5,
	OPENSSL_ASYNC_NO_JOBS = 6,
	OPENSSL_CLIENT_HELLO_CB = 7,
	OPENSSL_RETRY_VERIFY = 8,
	OPENRESTY_SESS_LOOKUP = 99,
	OPENSSL_RECEIVED_SHUTDOWN = 2,
	OPENSSL_BIO_READ = 1,
	OPENSSL_BIO_WRITE = 2,
	OPENSSL_BIO_SPECIAL = 4, /* it waits for something else, by its retry_reason */
	OPENSSL_BIO_CONNECT = 2,
	OPENSSL_BIO_ACCEPT = 3,
	OPENSSL_FLOW_ERROR = 1,
	OPENSSL_STATE_OK = 1, /* TLS_ST_OK: SSL_get_state where the handshake is over */
	OPENSSL_QUIC_OBJECT = 0x80,
};

/* BoringSSL's rwstate holds what SSL_get_error returns: SSL_ERROR_* of its openssl/ssl.h. */
enum {
	BORINGSSL_WANT_READ = 2,
	BORINGSSL_WANT_WRITE = 3,
	BORINGSSL_WANT_X509_LOOKUP = 4,
	BORINGSSL_SYSCALL = 5,
	BORINGSSL_ZERO_RETURN = 6,
	BORINGSSL_PENDING_SESSION = 11, /* from here on in the order of SSLL_REASON_PENDING_SESSION */
	BORINGSSL_HANDSHAKE_HINTS_READY = 20,
};

struct verdict {
	__u32 outcome;
	__u32 reason;
};

static __always_inline struct verdict verdict_of(__u32 outcome, __u32 reason)
{
	struct verdict verdict = {outcome, reason};

	return verdict;
}

/* An int at `offset` of the object at `base`; false where the offset isn't known or the page isn't there. */
static __always_inline bool read_int(__u64 base, __s32 offset, __u32 *value)
{
	return offset >= 0 && bpf_probe_read_user(value, sizeof(*value), (void *)(base + offset)) == 0;
}

/* What the SSL waits for, in the codes of its library. */
static __always_inline bool read_rwstate(__u64 ssl, const struct ssll_library *library, __u32 *rwstate)
{
	__u64 holder = ssl;

	if (library->boringssl >= 0 &&
	        (bpf_probe_read_user(&holder, sizeof(holder), (void *)(ssl + library->boringssl)) || !holder))
		return false;
	return read_int(holder, library->rwstate, rwstate);
}

/* Whether the SSL is a server's; false where that can't be read. */
static __always_inline bool read_server(__u64 ssl, const struct ssll_library *library, bool *server)
{
	__u32 word = 0;

	if (!read_int(ssl, library->server, &word))
		return false;
	*server = library->server_bits ? word & library->server_bits : word;
	return true;
}

/* What a BIO waits for: its flags, and the reason that lies behind them. */
struct bio_wait {
	__u32 flags, reason;
};

/* That of the BIO that the SSL at `ssl` holds at `offset`. */
static __always_inline bool read_bio_wait(__u64 ssl, __s32 offset, const struct ssll_library *library, struct bio_wait *wait)
{
	__u64 bio = 0;

	if (offset < 0 || bpf_probe_read_user(&bio, sizeof(bio), (void *)(ssl + offset)) || !bio)
		return false;
	return library->bio_flags >= 0 && bpf_probe_read_user(wait, sizeof(*wait), (void *)(bio + library->bio_flags)) == 0;
}

/* Since OpenSSL 3.2 an SSL * may be a QUIC object, whose state lies elsewhere. */
static __always_inline bool is_connection(__u64 ssl, const struct ssll_library *library)
{
	__u32 type = 0;

	return library->typed != 1 || (read_int(ssl, 0, &type) && !(type & OPENSSL_QUIC_OBJECT));
}

/* A wait for the socket only where the BIO says so: rwstate stays at READING when the peer is gone. */
static __always_inline struct verdict judge_transport(__u64 ssl, bool reading, const struct ssll_library *library)
{
	__s32 offset = reading ? library->rbio : library->wbio;
	struct bio_wait wait = {};
	__u32 state = 0;

	if (!read_bio_wait(ssl, offset, library, &wait))
		return verdict_of(SSLL_RETRY, SSLL_REASON_UNKNOWN);
	if (wait.flags & OPENSSL_BIO_READ)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_READ);
	if (wait.flags & OPENSSL_BIO_WRITE)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_WRITE);
	if (wait.flags & OPENSSL_BIO_SPECIAL && wait.reason == OPENSSL_BIO_CONNECT)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_CONNECT);
	if (wait.flags & OPENSSL_BIO_SPECIAL && wait.reason == OPENSSL_BIO_ACCEPT)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_ACCEPT);
	if (library->boringssl >= 0)
		return verdict_of(SSLL_FAILURE, SSLL_REASON_SYSCALL);
	if (!read_int(ssl, library->state, &state))
		return verdict_of(SSLL_FAILURE, SSLL_REASON_UNKNOWN);
	return verdict_of(SSLL_FAILURE, state == OPENSSL_FLOW_ERROR ? SSLL_REASON_SSL : SSLL_REASON_SYSCALL);
}

/* Nothing is waited for: the peer has closed in good order, or an error lies in OpenSSL's queue. */
static __always_inline struct verdict judge_end(__u64 ssl, __s32 returned, const struct ssll_library *library)
{
	__u32 shutdown = 0, state = 0;

	if (!read_int(ssl, library->shutdown, &shutdown) || !read_int(ssl, library->state, &state))
		return verdict_of(SSLL_FAILURE, SSLL_REASON_UNKNOWN);
	if (state != OPENSSL_FLOW_ERROR && returned == 0 && (shutdown & OPENSSL_RECEIVED_SHUTDOWN))
		return verdict_of(SSLL_CLOSED, SSLL_REASON_ZERO_RETURN);
	return verdict_of(SSLL_FAILURE, SSLL_REASON_SSL);
}

/* Each call begins with the code at 0, where it stays when an error lies in the queue. */
static __always_inline struct verdict judge_boringssl(__u64 ssl, __u32 code, const struct ssll_library *library)
{
	if (code == BORINGSSL_ZERO_RETURN)
		return verdict_of(SSLL_CLOSED, SSLL_REASON_ZERO_RETURN);
	if (code == BORINGSSL_SYSCALL)
		return verdict_of(SSLL_FAILURE, SSLL_REASON_SYSCALL);
	if (code == BORINGSSL_WANT_READ || code == BORINGSSL_WANT_WRITE)
		return judge_transport(ssl, code == BORINGSSL_WANT_READ, library);
	if (code == BORINGSSL_WANT_X509_LOOKUP)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_X509_LOOKUP);
	if (code >= BORINGSSL_PENDING_SESSION && code <= BORINGSSL_HANDSHAKE_HINTS_READY)
		return verdict_of(SSLL_RETRY, SSLL_REASON_PENDING_SESSION + code - BORINGSSL_PENDING_SESSION);
	return verdict_of(SSLL_FAILURE, SSLL_REASON_SSL);
}

static __always_inline struct verdict judge_ssl(__u64 ssl, __s32 returned, const struct ssll_library *library)
{
	__u32 rwstate = 0, state = 0;

	if (!ssl || !is_connection(ssl, library) || !read_rwstate(ssl, library, &rwstate))
		return verdict_of(SSLL_RETRY, SSLL_REASON_UNKNOWN);
	if (library->boringssl >= 0)
		return judge_boringssl(ssl, rwstate, library);
	/* An error in the queue goes before what the SSL waits for: a BIO may leave its flags as they were. */
	if (read_int(ssl, library->state, &state) && state == OPENSSL_FLOW_ERROR)
		return verdict_of(SSLL_FAILURE, SSLL_REASON_SSL);
	switch (rwstate) {
	case OPENSSL_READING:
	case OPENSSL_WRITING:
		return judge_transport(ssl, rwstate == OPENSSL_READING, library);
	case OPENSSL_X509_LOOKUP:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_X509_LOOKUP);
	case OPENSSL_ASYNC_PAUSED:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_ASYNC);
	case OPENSSL_ASYNC_NO_JOBS:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_ASYNC_JOB);
	case OPENSSL_CLIENT_HELLO_CB:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_CLIENT_HELLO_CB);
	case OPENSSL_RETRY_VERIFY:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_RETRY_VERIFY);
	case OPENRESTY_SESS_LOOKUP:
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_SESSION_LOOKUP);
	}
	return judge_end(ssl, returned, library);
}

/*
 * Every lane is done or was not used. Four bits a lane: 0 is done; bit 1 says that a pointer was NULL, as all of an unused lane
 * are, and the curves' functions then set others along with it.
 */
static __always_inline bool lanes_succeeded(__u32 status)
{
	__u32 unused = (status & 0x22222222U) >> 1;

	return (status & ~(unused * 15)) == 0;
}

static __always_inline bool succeeded(__u32 convention, __u64 returned)
{
	__s32 number = (__s32)returned;

	switch (convention) {
	case SSLL_SSL_HANDSHAKE:
	case SSLL_ONE:
		return number == 1;
	case SSLL_SSL_IO:
	case SSLL_SSL_EX:
	case SSLL_POSITIVE:
		return number > 0;
	case SSLL_SSL_SHUTDOWN:
	case SSLL_LENGTH:
		return number >= 0;
	case SSLL_POINTER:
		return returned != 0;
	case SSLL_MBX8:
		return lanes_succeeded(returned);
	}
	return true;
}

#endif
