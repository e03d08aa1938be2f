/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stands in for libbpf's header of this name where bcc compiles the shared headers. bcc declares the helpers itself, but knows
 * no sections, no calls between functions and no global variables, and names maps by descriptors: user space makes them first
 * and passes each as SSLL_FD_name.
 */
#ifndef SSLL_BCC_HELPERS_H
#define SSLL_BCC_HELPERS_H

#define SEC(name)
#undef __noinline
#define __noinline inline __attribute__((always_inline))

/* A map's definition is only a type, which says its descriptor. */
#define __uint(name, value) int(*name)[value]
#define __type(name, kind) __typeof__(kind) *name
#define SSLL_MAP(name) __uint(descriptor, SSLL_FD_##name)
#define SSLL_DESCRIPTOR(map) (sizeof(*(map)->descriptor) / sizeof(int))

#define bpf_map_lookup_elem(map, key) bpf_map_lookup_elem_(bpf_pseudo_fd(1, SSLL_DESCRIPTOR(map)), (void *)(key))
#define bpf_map_update_elem(map, key, value, flags)                                                                            \
	bpf_map_update_elem_(bpf_pseudo_fd(1, SSLL_DESCRIPTOR(map)), (void *)(key), (void *)(value), flags)
#define bpf_map_delete_elem(map, key) bpf_map_delete_elem_(bpf_pseudo_fd(1, SSLL_DESCRIPTOR(map)), (void *)(key))
/* The helper itself, as the wrapper of bcc 0.26 takes the map as a number, that of 0.31 as a pointer. */
#define bpf_tail_call(ctx, map, index)                                                                                         \
	(((long (*)(void *, __u64, __u32))BPF_FUNC_tail_call)(ctx, bpf_pseudo_fd(1, SSLL_DESCRIPTOR(map)), index))

/* As in maps.bpf.h; there a function, which would lose the map's type. */
#define lookup_or_init(map, key, init)                                                                                         \
	({                                                                                                                     \
		const void *key_ = key, *init_ = init;                                                                         \
		void *value_ = bpf_map_lookup_elem(map, key_);                                                                 \
		if (!value_ && init_) {                                                                                        \
			bpf_map_update_elem(map, key_, init_, BPF_NOEXIST);                                                    \
			value_ = bpf_map_lookup_elem(map, key_);                                                               \
		}                                                                                                              \
		value_;                                                                                                        \
	})

/* The address of the only value of an array. */
#define SSLL_VALUE(name) bpf_pseudo_fd(2, SSLL_FD_##name)

#endif
