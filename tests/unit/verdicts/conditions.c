/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Holds what the programs make of each condition of a branch against the architecture's manual, with all flags. Built once for
 * each machine. Ends with 1 at the first that differs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <bpf/bpf_helpers.h>

#include "ssllatency.h"

#include "common/registers.bpf.h"

#if defined(__TARGET_ARCH_x86)
static const __u32 flag_bits[] = {0, 2, 6, 7, 11}; /* CF, PF, ZF, SF, OF */
static bool expected(__u32 condition, const bool *set)
{
	bool carry = set[0], parity = set[1], zero = set[2], sign = set[3], overflow = set[4];

	switch (condition) {
	case 0: /* jo, and so on in the order of the opcodes */
		return overflow;
	case 1:
		return !overflow;
	case 2:
		return carry;
	case 3:
		return !carry;
	case 4:
		return zero;
	case 5:
		return !zero;
	case 6: /* jbe */
		return carry || zero;
	case 7:
		return !carry && !zero;
	case 8:
		return sign;
	case 9:
		return !sign;
	case 10:
		return parity;
	case 11:
		return !parity;
	case 12:
		return sign != overflow;
	case 13:
		return sign == overflow;
	case 14:
		return zero || sign != overflow;
	}
	return !zero && sign == overflow;
}
enum {
	CONDITIONS = 16,
};
#else
static const __u32 flag_bits[] = {28, 29, 30, 31}; /* V, C, Z, N */
static bool expected(__u32 condition, const bool *set)
{
	bool overflow = set[0], carry = set[1], zero = set[2], negative = set[3];

	switch (condition) {
	case 0: /* eq, and so on by the condition codes */
		return zero;
	case 1:
		return !zero;
	case 2:
		return carry;
	case 3:
		return !carry;
	case 4:
		return negative;
	case 5:
		return !negative;
	case 6:
		return overflow;
	case 7:
		return !overflow;
	case 8: /* hi */
		return carry && !zero;
	case 9: /* ls */
		return !carry || zero;
	case 10:
		return negative == overflow;
	case 11:
		return negative != overflow;
	case 12:
		return !zero && negative == overflow;
	case 13:
		return zero || negative != overflow;
	}
	return true; /* al */
}
enum {
	CONDITIONS = 15,
};
#endif
enum {
	FLAGS = sizeof(flag_bits) / sizeof(*flag_bits),
};

int main(void)
{
	for (__u32 condition = 0; condition < CONDITIONS; condition++) {
		for (__u32 chosen = 0; chosen < 1U << FLAGS; chosen++) {
			__u64 flags = 0;
			bool set[FLAGS];

			for (__u32 i = 0; i < FLAGS; i++) {
				set[i] = chosen >> i & 1;
				flags |= (__u64)set[i] << flag_bits[i];
			}
			if (condition_holds(flags, condition) != expected(condition, set)) {
				fprintf(stderr, "condition %u with the flags %#llx: expected %d\n", condition,
				        (unsigned long long)flags, expected(condition, set));
				return 1;
			}
		}
	}
	return 0;
}
