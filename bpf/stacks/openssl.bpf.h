/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OpenSSL: what its connections hold, and how SSL_get_error tells the outcome of a call by it. */
#ifdef SSLL_STACK
SSLL_STACK(OPENSSL, openssl, SSLL_ERROR_LIBRARY_SSL, false)
#elif !defined(STACKS_OPENSSL_BPF_H)
#define STACKS_OPENSSL_BPF_H

#include "stacks/connection.bpf.h"

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
	OPENSSL_VERIFY_PEER = 1,
};

/* Since OpenSSL 3.2 an SSL * may be a QUIC object, whose state lies elsewhere. */
static __always_inline bool is_connection(__u64 ssl, const struct ssll_library *library)
{
	__u32 type = 0;

	return library->typed != 1 || (read_int(ssl, 0, &type) && !(type & OPENSSL_QUIC_OBJECT));
}

/* Whether the connection's BIO waits for something, and what for: rwstate stays at READING when the peer is gone. */
static __always_inline bool bio_waits(__u64 ssl, bool reading, const struct ssll_library *library, struct verdict *verdict)
{
	__s32 offset = reading ? library->rbio : library->wbio;
	struct bio_wait wait = {};

	if (!read_bio_wait(ssl, offset, library, &wait))
		*verdict = retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	else if (wait.flags & OPENSSL_BIO_READ)
		*verdict = retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	else if (wait.flags & OPENSSL_BIO_WRITE)
		*verdict = retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	else if (wait.flags & OPENSSL_BIO_SPECIAL && wait.reason == OPENSSL_BIO_CONNECT)
		*verdict = retry(SSLL_WAIT_CONNECTION, SSLL_REASON_WANT_CONNECT);
	else if (wait.flags & OPENSSL_BIO_SPECIAL && wait.reason == OPENSSL_BIO_ACCEPT)
		*verdict = retry(SSLL_WAIT_CONNECTION, SSLL_REASON_WANT_ACCEPT);
	else
		return false;
	return true;
}

static __always_inline struct verdict judge_transport(__u64 ssl, bool reading, const struct ssll_library *library)
{
	struct verdict verdict;
	__u32 state = 0;

	if (bio_waits(ssl, reading, library, &verdict))
		return verdict;
	if (!read_int(ssl, library->state, &state))
		return failure(SSLL_END_ERROR, SSLL_REASON_UNKNOWN);
	return state == OPENSSL_FLOW_ERROR ? failure(SSLL_END_ERROR, SSLL_REASON_SSL)
	                                   : failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
}

/* Nothing is waited for: the peer has closed in good order, or an error lies in OpenSSL's queue. */
static __always_inline struct verdict judge_end(__u64 ssl, __s32 returned, const struct ssll_library *library)
{
	__u32 shutdown = 0, state = 0;

	if (!read_int(ssl, library->shutdown, &shutdown) || !read_int(ssl, library->state, &state))
		return failure(SSLL_END_ERROR, SSLL_REASON_UNKNOWN);
	if (state != OPENSSL_FLOW_ERROR && returned == 0 && (shutdown & OPENSSL_RECEIVED_SHUTDOWN))
		return closed(SSLL_REASON_ZERO_RETURN);
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

static __always_inline struct verdict judge_openssl(
        __u64 ssl, __s32 returned, const __u32 *rwstate, const struct ssll_library *library)
{
	__u32 state = 0;

	if (!rwstate)
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	/* An error in the queue goes before what the SSL waits for: a BIO may leave its flags as they were. */
	if (read_int(ssl, library->state, &state) && state == OPENSSL_FLOW_ERROR)
		return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
	switch (*rwstate) {
	case OPENSSL_READING:
	case OPENSSL_WRITING:
		return judge_transport(ssl, *rwstate == OPENSSL_READING, library);
	case OPENSSL_X509_LOOKUP:
		return retry(SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_X509_LOOKUP);
	case OPENSSL_ASYNC_PAUSED:
		return retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC);
	case OPENSSL_ASYNC_NO_JOBS:
		return retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC_JOB);
	case OPENSSL_CLIENT_HELLO_CB:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_CLIENT_HELLO_CB);
	case OPENSSL_RETRY_VERIFY:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_RETRY_VERIFY);
	case OPENRESTY_SESS_LOOKUP:
		return retry(SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_SESSION_LOOKUP);
	}
	return judge_end(ssl, returned, library);
}

#endif
