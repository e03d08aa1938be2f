/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stands in for libbpf's header of this name where the programs' headers are compiled for the host: helpers read the made-up
 * memory, and maps are empty.
 */
#ifndef SSLL_HOST_HELPERS_H
#define SSLL_HOST_HELPERS_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <string.h>

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline, unused))
#define __uint(name, value) int(*name)[value]
#define __type(name, kind) __typeof__(kind) *name

struct pt_regs;

/* Of the made-up memory, in made_up.c. */
long read_made_up(void *to, __u32 size, __u64 from);
long read_made_up_string(void *to, __u32 size, __u64 from);
/* The last text that was kept. */
extern unsigned char kept_text[128];

#define bpf_probe_read_user(to, size, from) read_made_up(to, size, (__u64)(from))
#define bpf_probe_read_kernel(to, size, from) read_made_up(to, size, (__u64)(from))
#define bpf_probe_read_user_str(to, size, from) read_made_up_string(to, size, (__u64)(from))

static inline void *bpf_map_lookup_elem(void *map, const void *key)
{
	(void)map;
	(void)key;
	return NULL;
}

static inline long keep_key(const void *key, unsigned long size)
{
	if (size <= sizeof(kept_text))
		memcpy(kept_text, key, size);
	return 0;
}

static inline long bpf_map_delete_elem(void *map, const void *key)
{
	(void)map;
	(void)key;
	return -1;
}

#define bpf_map_update_elem(map, key, value, flags) keep_key(key, sizeof(*(key)))
#define bpf_ktime_get_ns() 0ULL
#define bpf_get_current_pid_tgid() 0ULL
#define bpf_get_current_task() 0ULL
#define bpf_get_smp_processor_id() 0U
#define bpf_tail_call(ctx, map, index) ((void)(ctx))

#endif
