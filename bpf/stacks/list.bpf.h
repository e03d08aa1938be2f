/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The only list of the stacks whose calls are judged by stacks.bpf.h, a line each. Included where SSLL_STACK is defined, it
 * makes that of each; else it brings in their headers. SSLL_STACK(NUMBER, name, error_library, keeps_failing): judge_NAME
 * judges calls by what they returned and by the code that says what the connection waits for, NULL where that can't be read;
 * `error_library` is the number of the library in its own error codes; `keeps_failing`: each further call fails where a
 * handshake has failed, so that it begins no other.
 */
#include "stacks/openssl.bpf.h"
#include "stacks/boringssl.bpf.h"
#include "stacks/gnutls.bpf.h"
#include "stacks/mbedtls.bpf.h"
#include "stacks/s2n.bpf.h"
#include "stacks/wolfssl.bpf.h"
