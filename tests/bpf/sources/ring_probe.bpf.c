// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Puts numbered records into a ring buffer, as many as a test asks for (BPF_PROG_RUN of a syscall program). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MOST 4096

struct ring_probe {
	__u64 wanted;
	__u64 discard_every; /* each so many-th record is discarded; 0 none */
	__u64 next;          /* number of the next record, counted on whether or not it finds room */
	__u64 dropped;
	__u64 wake; /* 1: the last record wakes the reader */
};

struct numbered {
	__u64 number;
	__u8 filling[20]; /* the record's size isn't a multiple of 8 */
	__u32 again;
};

struct ring_probe probe SEC(".data.probe") = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096 * 4);
} records SEC(".maps");

__noinline int one(__u32 i)
{
	__u64 number = probe.next++;
	__u64 flags = probe.wake && i + 1 == probe.wanted ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	struct numbered *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		probe.dropped++;
		return 0;
	}
	record->number = number;
	record->again = number;
	if (probe.discard_every && number % probe.discard_every == 0)
		bpf_ringbuf_discard(record, flags);
	else
		bpf_ringbuf_submit(record, flags);
	return 0;
}

SEC("syscall")
int run_ring(void *ctx)
{
	(void)ctx;
	for (__u32 i = 0; i < MOST && i < probe.wanted; i++)
		one(i);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
