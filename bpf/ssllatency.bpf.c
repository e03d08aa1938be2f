// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Latency of the calls into OpenSSL and its crypto, by function, outcome and process, as histograms in kernel maps.
 *
 * Measures from an entry site to the exit site (or return) of the same call. The two are paired by process, stack pointer at
 * entry and operation, never by thread: a call that OpenSSL's ASYNC jobs park on a stack of their own ends on that stack.
 * Sites, and what a return value means, come in each probe's cookie. Nothing of the target is read but return values, the SSL's
 * state words and the BIO's flags. Cost: a slot of a table taken at entry and given back at exit, one hash look-up and one
 * update of a row at exit.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "calls/freeing.bpf.h"
#include "calls/go_calls.bpf.h"
#include "calls/record.bpf.h"
#include "common/programs.bpf.h"

/* What a hit costs before anything is done: the floor that the benchmark compares with. One for a session, too. */
SEC("uprobe")
int at_nothing(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uprobe")
int at_nothing_twice(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

/* Keeps the enums in the object's BTF, from which user space's side of the ABI is generated. */
const enum ssll_geometry *ssll_geometry_btf __attribute__((unused));
const enum ssll_convention *ssll_convention_btf __attribute__((unused));
const enum ssll_returns *ssll_returns_btf __attribute__((unused));
const enum ssll_outcome *ssll_outcome_btf __attribute__((unused));
const enum ssll_wait *ssll_wait_btf __attribute__((unused));
const enum ssll_end *ssll_end_btf __attribute__((unused));
const enum ssll_reason *ssll_reason_btf __attribute__((unused));
const enum ssll_side *ssll_side_btf __attribute__((unused));
const enum ssll_cookie *ssll_cookie_btf __attribute__((unused));
const enum ssll_deferred_cookie *ssll_deferred_cookie_btf __attribute__((unused));
const enum ssll_tier *ssll_tier_btf __attribute__((unused));
const enum ssll_stack *ssll_stack_btf __attribute__((unused));
const enum ssll_path_size *ssll_path_size_btf __attribute__((unused));
const enum ssll_place_of *ssll_place_of_btf __attribute__((unused));
const enum ssll_go_type *ssll_go_type_btf __attribute__((unused));
const enum ssll_go_field *ssll_go_field_btf __attribute__((unused));
const enum ssll_mbedtls_field *ssll_mbedtls_field_btf __attribute__((unused));
const enum ssll_hit *ssll_hit_btf __attribute__((unused));
const enum ssll_process_slot *ssll_process_slot_btf __attribute__((unused));
const enum ssll_hit_table *ssll_hit_table_btf __attribute__((unused));
const enum ssll_exit *ssll_exit_btf __attribute__((unused));
const enum ssll_side_table *ssll_side_table_btf __attribute__((unused));
const enum ssll_table *ssll_table_btf __attribute__((unused));
const enum ssll_goroutine_table *ssll_goroutine_table_btf __attribute__((unused));
const enum ssll_tag *ssll_tag_btf __attribute__((unused));
const enum ssll_target *ssll_target_btf __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
