// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whole handshakes: one record for each SSL *, from its first handshake call to its success, failure or SSL_free.
 *
 * Sites come from the plan, what each means from its cookie: entry and exit of the SSL_* calls, both ends of the calls that
 * libssl makes for a phase's work, and the functions that raise errors. Nothing of the target is read but return values, state
 * words, sizes and codes. Cost: a look-up of the record at each site inside a handshake, and some rows updated when it ends.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "handshakes/calls.bpf.h"
#include "handshakes/go/goroutines.bpf.h"
#include "common/programs.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_tracepoint_program);

SEC("uprobe")
int at_phase(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return begin_phase(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_phase_end(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return end_phase(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_phase(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return begin_go_phase(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_phase_end(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return end_go_phase(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_certificate(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_go_certificate(ctx);
}

SEC("uprobe")
int at_go_collection(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return begin_collection(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_collection_end(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return end_collection(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_signing(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_signing(argument(ctx, 0), argument(ctx, 4));
}

SEC("uprobe")
int at_message(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_message(argument(ctx, 1), argument(ctx, 2));
}

SEC("uprobe")
int at_parameters(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_parameters(argument(ctx, 0));
}

SEC("uprobe")
int at_go_parameters(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_go_parameters(ctx);
}

/* OpenSSL's own private-key methods: inside a handshake, that is, not in an offload's own threads. */
SEC("uprobe")
int at_software(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	if (current_handshake())
		count(&handshake_counters.software);
	return 0;
}

SEC("uprobe")
int at_wake_set(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return note_wake(argument(ctx, 2));
}

SEC("uprobe")
int at_batch(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return count_batch(argument(ctx, 0), field(count_hit(bpf_get_attach_cookie(ctx)), SSLL_COOKIE_OPERATION, 8));
}

SEC("raw_tracepoint/sys_enter")
int at_write(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	const struct machine_registers *registers = (const struct machine_registers *)ctx->args[0];
	__u64 descriptor = 0;

	if (ctx->args[1] != SYSTEM_CALL_WRITE)
		return 0;
	bpf_probe_read_kernel(&descriptor, sizeof(descriptor), &registers->FIRST_ARGUMENT);
	return note_completion(descriptor);
}

SEC("raw_tracepoint/sched_process_exit")
int at_thread_end(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	lose_call_of_thread();
	return end_thread((struct task_struct *)ctx->args[0]);
}

SEC("raw_tracepoint/inet_sock_set_state")
int at_socket_state(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_established(ctx->args[0], ctx->args[1], ctx->args[2]);
}

/* Since Linux 6.3. */
SEC("raw_tracepoint/sk_data_ready")
int at_arrival(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_data_ready(ctx->args[0]);
}

SEC("raw_tracepoint/tcp_probe")
int at_segment(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_segment(ctx->args[0], (const struct sk_buff *)ctx->args[1]);
}

/* These two since Linux 6.3. */
SEC("raw_tracepoint/sock_recv_length")
int at_receive(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_transfer(ctx->args[0], ctx->args[1], ctx->args[2], SSLL_PART_WAIT_PEER);
}

SEC("raw_tracepoint/sock_send_length")
int at_send(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_transfer(ctx->args[0], ctx->args[1], ctx->args[2], SSLL_PART_WAIT_WINDOW);
}

/* As at_receive, for other programs than Go's. */
SEC("raw_tracepoint/sock_recv_length")
int at_datagram(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_datagram(ctx->args[0], ctx->args[1]);
}

SEC("raw_tracepoint/net_dev_queue")
int at_packet(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_packet(ctx->args[0]);
}

SEC("raw_tracepoint/tcp_rcv_space_adjust")
int at_read(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	return note_read(ctx->args[0]);
}

/* Keeps the enums and the event in the object's BTF, from which user space's side of the ABI is generated. */
const struct ssll_single *ssll_single_btf __attribute__((unused));
const struct ssll_certificate *ssll_certificate_btf __attribute__((unused));
const enum ssll_certificate_size *ssll_certificate_size_btf __attribute__((unused));
const enum ssll_state *ssll_state_btf __attribute__((unused));
const enum ssll_shut *ssll_shut_btf __attribute__((unused));
const enum ssll_batch *ssll_batch_btf __attribute__((unused));
const enum ssll_shared *ssll_shared_btf __attribute__((unused));
const enum ssll_table_size *ssll_table_size_btf __attribute__((unused));
const struct ssll_holding *ssll_holding_btf __attribute__((unused));
const enum ssll_part *ssll_part_btf __attribute__((unused));
const enum ssll_fact *ssll_fact_btf __attribute__((unused));
const enum ssll_ending *ssll_ending_btf __attribute__((unused));
const enum ssll_operation *ssll_operation_btf __attribute__((unused));
const enum ssll_peer *ssll_peer_btf __attribute__((unused));
const enum ssll_flag *ssll_flag_btf __attribute__((unused));
const enum ssll_text_kind *ssll_text_kind_btf __attribute__((unused));
const enum ssll_label *ssll_label_btf __attribute__((unused));
const enum ssll_client_certificate *ssll_client_certificate_btf __attribute__((unused));
const enum ssll_key_operation *ssll_key_operation_btf __attribute__((unused));
const enum ssll_phase_cookie *ssll_phase_cookie_btf __attribute__((unused));
const enum ssll_error_cookie *ssll_error_cookie_btf __attribute__((unused));
const enum ssll_error *ssll_error_btf __attribute__((unused));
const enum ssll_go_key *ssll_go_key_btf __attribute__((unused));
const enum ssll_go_reason *ssll_go_reason_btf __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
