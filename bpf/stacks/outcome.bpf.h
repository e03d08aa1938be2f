/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a call ended: by the return value first, then by what the connection's stack has SSL_get_error look at. */
#ifndef OUTCOME_BPF_H
#define OUTCOME_BPF_H

#include "common/registers.bpf.h"
#include "stacks/stacks.bpf.h"

/*
 * Every lane is done or was not used. Four bits a lane: 0 is done; bit 1 says that a pointer was NULL, as all of an unused lane
 * are, and the curves' functions then set others along with it.
 */
static __always_inline bool lanes_succeeded(__u32 status)
{
	__u32 unused = (status & 0x22222222U) >> 1;

	return (status & ~(unused * 15)) == 0;
}

/* By the convention of OpenSSL's function. */
static __always_inline bool succeeded_as_openssl(__u32 convention, __u64 returned)
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

/* Whether a call of the function with this cookie did its work. */
static __always_inline bool succeeded(__u64 cookie, __u64 returned)
{
	__u32 convention = field(cookie, SSLL_COOKIE_CONVENTION, 4);
	__s32 number = (__s32)returned;

	switch (field(cookie, SSLL_COOKIE_RETURNS, 2)) {
	case SSLL_RETURNS_OPENSSL:
		return succeeded_as_openssl(convention, returned);
	case SSLL_RETURNS_GO_ERROR:
		return !returned;
	}
	return convention == SSLL_SSL_IO ? number > 0 : number >= 0;
}

#endif
