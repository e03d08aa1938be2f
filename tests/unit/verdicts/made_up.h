/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A made-up process: its memory, of which parts can't be read, and where objects are laid in it. Random, but the same each
 * time. */
#ifndef MADE_UP_H
#define MADE_UP_H

#include <linux/types.h>
#include <stdbool.h>

/* A number below `below`. */
__u32 any(__u32 below);
__u64 any_word(void);
/* Whether something that happens once in so many times does. */
bool once_in(__u32 times);

/* Empties the memory: nothing in it can be read. */
void begin_memory(void);
/* A place for so many bytes, aligned, which can be read or not; nothing else lies there. */
__u64 place_for(__u32 size, bool readable);
void write_made_up(__u64 to, const void *from, __u32 size);

/* Says that what was made up and what was told of it differ, and ends the program. */
void differ(const char *what, __u64 told, __u64 expected);

#endif
