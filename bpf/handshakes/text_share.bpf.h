/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process's share of the texts that stand behind labels: what one makes too many of doesn't push out what others have. */
#ifndef TEXT_SHARE_BPF_H
#define TEXT_SHARE_BPF_H

#include "running/shares.bpf.h"

static __always_inline bool on_text(bool made)
{
	__u64 *entries = entries_of(this_process(), SSLL_SHARED_TEXTS);

	if (made && entries)
		count(entries);
	return entries && *entries < handshake_config.most_texts;
}

#endif
