/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is asked of a connection's stack: the only place that tells one from another. */
#ifndef STACKS_STACKS_BPF_H
#define STACKS_STACKS_BPF_H

#include "stacks/boringssl.bpf.h"
#include "stacks/openssl.bpf.h"

/* How a call ended that didn't succeed. */
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

#endif
