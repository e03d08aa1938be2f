/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an offload does: handshakes that wait for it, when their operation was completed, the lanes of multi-buffer calls.
 * Those that wait are counted for each process too: when it is killed they wait no more.
 *
 * An engine wakes the application by writing to the descriptor that it put into the SSL's ASYNC_WAIT_CTX, so that write is the
 * completion. Which descriptor that is, is known from the call that put it there.
 */
#ifndef OFFLOAD_BPF_H
#define OFFLOAD_BPF_H

#include "common/tasks.bpf.h"
#include "common/times.bpf.h"
#include "running/history.bpf.h"

/* A descriptor of a process. */
struct wake_key {
	__u32 tgid;
	__u32 descriptor;
};

/* The handshake whose job is woken by a write to the descriptor: once that has ended, both numbers are soon another's. The
 * thread is the one that is expected to come for it, and its clocks are those at the completion. */
struct woken {
	struct ssll_handshake_key handshake;
	__u64 began_ns;
	__u64 task;
	struct ssll_clocks clocks;
	__u32 tid;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct wake_key);
	__type(value, struct woken);
} wakes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_POLLERS);
	__type(key, __u32);
	__type(value, struct ssll_poller);
} pollers SEC(".maps");

/* How many handshakes of a process wait. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __s64);
} waiting_in SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct ssll_batch_key);
	__type(value, __u64);
} batches SEC(".maps");

/* ASYNC_WAIT_CTX_set_wait_fd(context, key, descriptor, …) inside a call of a handshake. */
static __always_inline int note_wake(__u32 descriptor)
{
	__u32 tid = this_thread(), tgid = this_process();
	struct ssll_thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct wake_key key = {.tgid = tgid, .descriptor = descriptor};
	struct woken woken = {.handshake = {.tgid = tgid}};
	struct ssll_handshake *handshake = current_handshake();

	if (!thread || !handshake)
		return 0;
	woken.handshake.ssl = thread->ssl;
	woken.began_ns = handshake->began_ns;
	woken.task = bpf_get_current_task();
	woken.tid = tid;
	handshake->wake_descriptor = descriptor;
	bpf_map_update_elem(&wakes, &key, &woken, BPF_ANY);
	return 0;
}

static __always_inline void count_poller(void)
{
	struct ssll_poller fresh = {.tgid = this_process()}, *poller;
	__u32 tid = this_thread();

	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	poller = lookup_or_init_shared(&pollers, &tid, &fresh, SSLL_SHARED_POLLERS, MOST_OF(SSLL_POLLERS));
	count_or_map_full(poller ? &poller->completions : NULL);
}

static __always_inline int note_completion(__u32 descriptor)
{
	struct wake_key key = {.tgid = this_process(), .descriptor = descriptor};
	struct woken *woken = bpf_map_lookup_elem(&wakes, &key);
	struct ssll_handshake *handshake = woken ? find_handshake(woken->handshake.ssl, woken->handshake.tgid) : NULL;

	if (!handshake || handshake->began_ns != woken->began_ns)
		return 0;
	if (!handshake->completed_ns) {
		handshake->completed_ns = bpf_ktime_get_ns();
		read_clocks((struct task_struct *)woken->task, woken->tid, &woken->clocks, handshake->completed_ns);
	}
	count_poller();
	return 0;
}

static __always_inline void begin_offload_wait(struct ssll_handshake *handshake)
{
	__s64 waiting = __sync_fetch_and_add(&handshake_counters.waiting_offload, 1) + 1;
	const __s64 none = 0;
	__u32 tgid = this_process();
	__s64 *own = lookup_or_init(&waiting_in, &tgid, &none);

	count_or_map_full((__u64 *)own);
	handshake->pauses++;
	count(&handshake_counters.pauses);
	if (waiting > 0)
		raise_to(&handshake_counters.most_waiting_offload, waiting);
}

/* The operation was completed then, and the thread that runs has come for it now: until then its time was queue. */
__noinline int end_offload_queue(struct ssll_handshake *handshake, __u64 completed, __u64 now)
{
	struct wake_key key = {.tgid = this_process()};
	struct woken *woken;

	if (!handshake)
		return 0;
	key.descriptor = handshake->wake_descriptor;
	woken = bpf_map_lookup_elem(&wakes, &key);
	if (woken && woken->began_ns != handshake->began_ns) /* the descriptor is another job's by now */
		woken = NULL;
	return add_meanwhile(handshake, woken ? &woken->clocks : NULL, completed, now - completed, now);
}

/* The wait ends at `now`; splits it at the completion where that was seen. */
static __always_inline void end_offload_wait(struct ssll_handshake *handshake, __u64 now)
{
	__u64 completed = handshake->completed_ns;
	__u32 tgid = this_process();
	__s64 *own = bpf_map_lookup_elem(&waiting_in, &tgid);

	if (own)
		__sync_fetch_and_add(own, -1);
	__sync_fetch_and_add(&handshake_counters.waiting_offload, -1);
	if (!completed) {
		count(&handshake_counters.unseen);
		return;
	}
	if (completed < handshake->since_ns) /* before the call that paused came back */
		completed = handshake->since_ns;
	if (completed > now)
		completed = now;
	handshake->parts[SSLL_PART_OFFLOAD_COMPLETION] += completed - handshake->since_ns;
	handshake->parts[SSLL_PART_QUEUE_OFFLOAD] += now - completed;
	if (now > completed)
		end_offload_queue(handshake, completed, now);
}

/* A thread ends: with the last one of a process, whatever of it waits. */
static __always_inline int end_thread(struct task_struct *thread)
{
	__u32 tgid = this_process(), tid = this_thread();
	__s64 *own = bpf_map_lookup_elem(&waiting_in, &tgid), waited;

	bpf_map_delete_elem(&threads, &tid);
	if (!own || !is_last_thread(thread))
		return 0;
	waited = *own;
	if (!bpf_map_delete_elem(&waiting_in, &tgid)) /* else it was done for another of the last threads */
		__sync_fetch_and_add(&handshake_counters.waiting_offload, -waited);
	return 0;
}

/* A multi-buffer function is entered; its first argument is an array of pointers, NULL for a lane that isn't used. */
static __always_inline int count_batch(__u64 lanes_at, __u32 operation)
{
	struct ssll_batch_key key = {.operation = operation};
	const __u64 none = 0;
	__u64 lanes[SSLL_BATCH_LANES];

	if (!is_traced(this_process()) || bpf_probe_read_user(lanes, sizeof(lanes), (void *)lanes_at))
		return 0;
	for (__u32 lane = 0; lane < SSLL_BATCH_LANES; lane++)
		key.lanes += lanes[lane] != 0;
	count_or_map_full(lookup_or_init(&batches, &key, &none));
	return 0;
}

#endif
