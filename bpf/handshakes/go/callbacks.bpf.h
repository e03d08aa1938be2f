/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions of the application's that crypto/tls calls. A Config holds them as closures, and a closure is called by its code,
 * with its own address in a register. Sites are where any closure is about to be called; it is the application's if the
 * connection's Config holds it.
 */
#ifndef HANDSHAKES_GO_CALLBACKS_BPF_H
#define HANDSHAKES_GO_CALLBACKS_BPF_H

#include "handshakes/go/threads.bpf.h"

static __noinline bool is_held_by_config(__u64 closure, __u64 connection, const struct ssll_library *library)
{
	__u64 config = 0, held = 0;

	if (!closure || !read_go_field(connection, SSLL_GO_FIELD_CONFIG, library, &config, sizeof(config)))
		return false;
	for (__u32 field = SSLL_GO_FIELD_GET_CERTIFICATE; field < SSLL_GO_FIELDS; field++) {
		if (read_go_field(config, field, library, &held, sizeof(held)) && held == closure)
			return true;
	}
	return false;
}

static __always_inline bool calls_application(
        const struct pt_regs *ctx, const struct ssll_handshake *handshake, __u64 connection)
{
	struct ssll_library *library = library_of(handshake->library);

	return library && is_held_by_config(REGISTER(ctx, GO_CLOSURE), connection, library);
}

#endif
