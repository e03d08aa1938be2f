/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, the configuration, and the account of what was missed. Sizes here are the default; user space sets some. */
#ifndef MAPS_BPF_H
#define MAPS_BPF_H

#include "ssllatency.h"
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* Sections of their own, so that user space finds each as one value. */
const volatile struct ssll_config config SEC(".rodata.config") = {
        .linear_step_ns = 200000,
        .linear_buckets = 5,
};

struct ssll_account account SEC(".data.account") = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct ssll_series_key);
	__type(value, struct ssll_series);
} series SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ssll_series);
} blank SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct ssll_process);
} processes SEC(".maps");

/* Processes that found no room and count under "other": a set, so that their number is known. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} folded SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct ssll_library);
} libraries SEC(".maps");

static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#endif
