/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Has the programs' own code judge connections that are made up at random, and holds each verdict against what the manual page
 * SSL_get_error(3) says of such a connection. Prints how often each verdict was told; ends with 1 at the first that differs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "made_up.h"

#include "stacks/outcome.bpf.h"
#include "handshakes/waits.bpf.h"

enum {
	VERDICTS = 4 * 32,
};

/* A field of the connection: whether the layout says where it is, whether it can be read, and what it holds. */
struct made_field {
	bool known, readable;
	__u32 value;
};

struct made_bio {
	bool known, pointer_readable, is_null, flags_known, readable;
	__u32 flags, reason;
};

struct made_connection {
	bool is_null, typed, type_readable, quic, held, holder_readable, holder_null, later; /* later: Mbed TLS 3 */
	__u32 stack;
	__s32 returned;
	struct made_field rwstate, shutdown, state;
	struct made_bio reading, writing;
};

static const __u32 states[] = {0, 0, 256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 99, ~0U};

/* What GnuTLS' calls return: its manual, "Error codes and descriptions". */
static const __s32 gnutls_codes[] = {
        0, -8, -9, -10, -12, -15, -16, -24, -28, -28, -37, -38, -52, -53, -54, -87, -110, -112, -319, -328, -348};

/* What Mbed TLS' calls return: mbedtls/ssl.h and mbedtls/net_sockets.h, without the sign. */
static const __s32 mbedtls_codes[] = {0, 1, 0x4c, 0x4e, 0x50, 0x2700, 0x6480, 0x6500, 0x6780, 0x6800, 0x6880, 0x6900, 0x6980,
        0x6a80, 0x6b00, 0x6e00, 0x7000, 0x7180, 0x7280, 0x7380, 0x7780, 0x7880, 0x7900, 0x7b00, 0x7c00, 0x7a0b};

static __s32 any_returned(__u32 stack)
{
	if (stack == SSLL_STACK_GNUTLS)
		return gnutls_codes[any(sizeof(gnutls_codes) / sizeof(*gnutls_codes))];
	if (stack == SSLL_STACK_MBEDTLS)
		return -mbedtls_codes[any(sizeof(mbedtls_codes) / sizeof(*mbedtls_codes))];
	return (__s32)any(3) - 1;
}

/* s2n_errno: S2N_ERR_IO, S2N_ERR_CLOSED, those of S2N_ERR_T_BLOCKED, one of each other type of error. */
static const __u32 s2n_errors[] = {0x04000000, 0x08000000, 0x0c000000, 0x0c000000, 0x0c000001, 0x0c000002, 0x0c000003,
        0x10000000, 0x14000005, 0x18000009, 0x1c000040, 0};

/* What wolfSSL's connections hold: wolfssl/error-ssl.h and wolfssl/wolfcrypt/error-crypt.h. */
static const __s32 wolfssl_codes[] = {0, -108, -125, -308, -313, -323, -323, -326, -327, -343, -397, -408, -441, -501};

static struct made_field any_field(__u32 value)
{
	struct made_field field = {!once_in(10), !once_in(10), value};

	return field;
}

static struct made_bio any_bio(bool flags_known)
{
	struct made_bio bio = {
	        .known = !once_in(10),
	        .pointer_readable = !once_in(10),
	        .is_null = once_in(10),
	        .flags_known = flags_known,
	        .readable = !once_in(10),
	        .flags = any(16) | (once_in(4) ? any_word() & ~15ULL : 0),
	        .reason = any(5),
	};

	return bio;
}

static struct made_connection any_connection(void)
{
	static const __u32 stacks[] = {SSLL_STACK_OPENSSL, SSLL_STACK_BORINGSSL, SSLL_STACK_GNUTLS, SSLL_STACK_MBEDTLS,
	        SSLL_STACK_S2N, SSLL_STACK_WOLFSSL};
	__u32 stack = stacks[any(sizeof(stacks) / sizeof(*stacks))];
	bool flags_known = !once_in(10);
	struct made_connection made = {
	        .is_null = once_in(50),
	        .typed = once_in(2),
	        .type_readable = !once_in(10),
	        .quic = once_in(8),
	        .held = once_in(2),
	        .holder_readable = !once_in(10),
	        .holder_null = once_in(10),
	        .stack = stack,
	        .later = once_in(2),
	        .returned = any_returned(stack),
	        .rwstate = any_field(stack == SSLL_STACK_S2N ? s2n_errors[any(sizeof(s2n_errors) / sizeof(*s2n_errors))]
	                                                     : states[any(sizeof(states) / sizeof(*states))]),
	        .shutdown = any_field(any(4)),
	        .state = any_field(any(3)),
	        .reading = any_bio(flags_known),
	        .writing = any_bio(flags_known),
	};

	if (stack == SSLL_STACK_WOLFSSL)
		made.rwstate.value = wolfssl_codes[any(sizeof(wolfssl_codes) / sizeof(*wolfssl_codes))];
	return made;
}

/* Lays the value down; the offset of it from the object at `from`, -1 where the layout doesn't know it. */
static __s32 lay_down(struct made_field field, __u64 from)
{
	__u64 at = place_for(sizeof(field.value), field.readable);

	write_made_up(at, &field.value, sizeof(field.value));
	return field.known ? (__s32)(at - from) : -1;
}

static __s32 lay_pointer(__u64 pointer, bool readable, __u64 from)
{
	__u64 at = place_for(sizeof(pointer), readable);

	write_made_up(at, &pointer, sizeof(pointer));
	return at - from;
}

/* Both BIOs have their flags at the same offset. */
static __s32 lay_bio(struct made_bio bio, __s32 flags_at, __u64 from)
{
	struct bio_wait wait = {bio.flags, bio.reason};
	__u64 at = place_for(sizeof(wait), bio.readable);
	__s32 offset;

	write_made_up(at, &wait, sizeof(wait));
	offset = lay_pointer(bio.is_null ? 0 : at - flags_at, bio.pointer_readable, from);
	return bio.known ? offset : -1;
}

/* The error of the made-up thread, below what its thread pointer points to; how far, -1 where that isn't known. */
static __s32 lay_in_thread(struct made_field field)
{
	__u32 distance = 4 + 4 * any(1000);
	__u64 at = place_for(sizeof(field.value), field.readable);

	write_made_up(at, &field.value, sizeof(field.value));
	made_up_thread = at + distance;
	return field.known ? (__s32)distance : -1;
}

/* Two numbers, up to where output is sent, and written: as many bytes behind. */
static __s32 lay_cursors(struct made_field pending, __u64 from)
{
	__u32 sent = any(100), cursors[2] = {sent, sent + pending.value};
	__u64 at = place_for(sizeof(cursors), pending.readable);

	write_made_up(at, cursors, sizeof(cursors));
	return pending.known ? (__s32)(at - from) : -1;
}

/* The connection in memory. Returns its address, and in *library where its fields are. */
static __u64 lay_connection(const struct made_connection *made, struct ssll_library *library)
{
	__u32 type = made->quic ? 0x80 : any(2), flags_at = any(64);
	__u64 ssl, holder;

	begin_memory();
	ssl = place_for(sizeof(type), made->type_readable);
	write_made_up(ssl, &type, sizeof(type));
	holder = made->held ? place_for(8, true) : ssl;
	*library = (struct ssll_library){
	        .typed = made->typed,
	        .stack = made->stack,
	        .holder = made->held ? lay_pointer(made->holder_null ? 0 : holder, made->holder_readable, ssl) : -1,
	        .rwstate = lay_down(made->rwstate, holder),
	        .shutdown = lay_down(made->shutdown, ssl),
	        .state = lay_down(made->state, ssl),
	        .rbio = lay_bio(made->reading, flags_at, ssl),
	        .wbio = lay_bio(made->writing, flags_at, ssl),
	        .bio_flags = made->reading.flags_known ? (__s32)flags_at : -1,
	};
	if (made->stack == SSLL_STACK_MBEDTLS)
		library->fields[SSLL_MBEDTLS_FIELD_MAJOR] = made->later ? 3 : 2;
	if (made->stack == SSLL_STACK_S2N) {
		library->rwstate = lay_in_thread(made->rwstate);
		library->shutdown = lay_cursors(made->shutdown, ssl);
	}
	return made->is_null ? 0 : ssl;
}

static bool can_read(struct made_field field)
{
	return field.known && field.readable;
}

/* A code that the library returns for a wait: SSL_get_error's, or BoringSSL's. */
struct code {
	__u32 code, wait, reason;
};

static struct verdict expected_retry(__u32 wait, __u32 reason)
{
	return (struct verdict){.outcome = SSLL_RETRY, .wait = wait, .end = SSLL_END_NONE, .reason = reason};
}

static struct verdict expected_failure(__u32 end, __u32 reason)
{
	return (struct verdict){.outcome = SSLL_FAILURE, .wait = SSLL_WAIT_NONE, .end = end, .reason = reason};
}

static struct verdict expected_close(void)
{
	return (struct verdict){
	        .outcome = SSLL_CLOSED, .wait = SSLL_WAIT_NONE, .end = SSLL_END_CLOSED, SSLL_REASON_ZERO_RETURN};
}

/* What SSL_want() and BIO_should_retry() say of a transport; an outcome of success where it asks for nothing. */
static struct verdict expected_of_bio(struct made_bio bio)
{
	if (!(bio.known && bio.pointer_readable && !bio.is_null && bio.flags_known && bio.readable))
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	if (bio.flags % 2)
		return expected_retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	if (bio.flags / 2 % 2)
		return expected_retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	if (bio.flags / 4 % 2 && (bio.reason == 2 || bio.reason == 3))
		return expected_retry(
		        SSLL_WAIT_CONNECTION, bio.reason == 2 ? SSLL_REASON_WANT_CONNECT : SSLL_REASON_WANT_ACCEPT);
	return (struct verdict){.outcome = SSLL_SUCCESS};
}

static struct verdict expected_of_boringssl(const struct made_connection *made)
{
	static const struct code retries[] = {
	        {4, SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_X509_LOOKUP},
	        {11, SSLL_WAIT_LOOKUP, SSLL_REASON_PENDING_SESSION},
	        {12, SSLL_WAIT_LOOKUP, SSLL_REASON_PENDING_CERTIFICATE},
	        {13, SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_PRIVATE_KEY_OPERATION},
	        {14, SSLL_WAIT_APPLICATION, SSLL_REASON_PENDING_TICKET},
	        {15, SSLL_WAIT_HANDSHAKE, SSLL_REASON_EARLY_DATA_REJECTED},
	        {16, SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_CERTIFICATE_VERIFY},
	        {17, SSLL_WAIT_HANDSHAKE, SSLL_REASON_HANDOFF},
	        {18, SSLL_WAIT_HANDSHAKE, SSLL_REASON_HANDBACK},
	        {19, SSLL_WAIT_HANDSHAKE, SSLL_REASON_WANT_RENEGOTIATE},
	        {20, SSLL_WAIT_HANDSHAKE, SSLL_REASON_HANDSHAKE_HINTS_READY},
	};
	__u32 code = made->rwstate.value;
	struct verdict wanted;

	if (code == 2 || code == 3) {
		wanted = expected_of_bio(code == 2 ? made->reading : made->writing);
		return wanted.outcome == SSLL_RETRY ? wanted : expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	if (code == 5)
		return expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	if (code == 6)
		return expected_close();
	for (__u32 i = 0; i < sizeof(retries) / sizeof(*retries); i++) {
		if (retries[i].code == code)
			return expected_retry(retries[i].wait, retries[i].reason);
	}
	return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

static struct verdict expected_of_openssl(const struct made_connection *made)
{
	static const struct code retries[] = {
	        {4, SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_X509_LOOKUP},
	        {5, SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC},
	        {6, SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC_JOB},
	        {7, SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_CLIENT_HELLO_CB},
	        {8, SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_RETRY_VERIFY},
	        {99, SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_SESSION_LOOKUP},
	};
	__u32 wants = made->rwstate.value;
	bool state_known = can_read(made->state);
	struct verdict wanted;

	if (state_known && made->state.value == 1) /* an error is in the queue, which goes first */
		return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
	if (wants == 2 || wants == 3) {
		wanted = expected_of_bio(wants == 3 ? made->reading : made->writing);
		if (wanted.outcome == SSLL_RETRY)
			return wanted;
		return state_known ? expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL)
		                   : expected_failure(SSLL_END_ERROR, SSLL_REASON_UNKNOWN);
	}
	for (__u32 i = 0; i < sizeof(retries) / sizeof(*retries); i++) {
		if (retries[i].code == wants)
			return expected_retry(retries[i].wait, retries[i].reason);
	}
	if (!state_known || !can_read(made->shutdown))
		return expected_failure(SSLL_END_ERROR, SSLL_REASON_UNKNOWN);
	if (made->returned == 0 && made->shutdown.value >= 2) /* SSL_RECEIVED_SHUTDOWN, with SSL_SENT_SHUTDOWN or without */
		return expected_close();
	return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* The functions gnutls_error_is_fatal and gnutls_record_get_direction of its manual say what is to be done. */
static struct verdict expected_of_gnutls(const struct made_connection *made)
{
	bool direction_known = !made->is_null && (!made->typed || (made->type_readable && !made->quic)) &&
	                       (!made->held || (made->holder_readable && !made->holder_null)) && can_read(made->rwstate);

	switch (made->returned) {
	case 0:
		return expected_close();
	case -16: /* a warning */
	case -37: /* the peer asks for a handshake */
	case -38: /* data within one */
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case -53:
	case -54:
	case -110: /* the transport, or its end */
		return expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	if (made->returned != -28 && made->returned != -52)
		return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
	if (!direction_known)
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	return made->rwstate.value % 256 ? expected_retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE)
	                                 : expected_retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
}

/* What the comments of its headers say: whether to call again and for what, or what has happened. */
static struct verdict expected_of_mbedtls(const struct made_connection *made)
{
	switch (-made->returned) {
	case 0x6900:
	case 0x6800: /* a deadline */
		return expected_retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case 0x6880:
		return expected_retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	case 0x6500:
		return expected_retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC);
	case 0x6780: /* the client begins anew, or has to */
	case 0x6a80:
		return expected_retry(SSLL_WAIT_HANDSHAKE, SSLL_REASON_WANT_RENEGOTIATE);
	case 0x6b00:
	case 0x7000:
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case 0x7b00: /* a ticket, or early data; a failure in 2.x */
	case 0x7c00:
		return made->later ? expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN)
		                   : expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
	case 0x7880:
		return expected_close();
	case 0: /* the end of the transport */
	case 0x4c:
	case 0x4e:
	case 0x50:
	case 0x7280:
		return expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* s2n.h: s2n_error_get_type, and for what each call flushes and reads. */
static struct verdict expected_of_s2n(const struct made_connection *made)
{
	bool told = !made->is_null && (!made->typed || (made->type_readable && !made->quic)) && can_read(made->rwstate);

	if (!made->returned)
		return expected_close();
	if (!told)
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	switch (made->rwstate.value) {
	case 0x0c000000:
		if (!can_read(made->shutdown))
			return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
		return made->shutdown.value ? expected_retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE)
		                            : expected_retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case 0x0c000001:
		return expected_retry(SSLL_WAIT_APPLICATION, SSLL_REASON_APPLICATION_INPUT);
	case 0x0c000002:
		return expected_retry(SSLL_WAIT_APPLICATION, SSLL_REASON_EARLY_DATA);
	case 0x0c000003:
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case 0x04000000:
	case 0x08000000:
		return expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* The function wolfSSL_get_error of its manual says what is to be done. */
static struct verdict expected_of_wolfssl(const struct made_connection *made)
{
	switch ((__s32)made->rwstate.value) {
	case -323:
		return expected_retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case -327:
		return expected_retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	case -108: /* an operation that is done elsewhere */
		return expected_retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC);
	case -408: /* the callback that asks for a certificate's status */
		return expected_retry(SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_RETRY_VERIFY);
	case -441: /* data within a handshake */
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case -343:
		return expected_close();
	case -308:
	case -397: /* the transport, or its end */
		return expected_failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	case 0:
		if (!made->returned)
			return expected_close();
	}
	return expected_failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

static struct verdict expected_of(const struct made_connection *made)
{
	bool is_connection = !made->is_null && (!made->typed || (made->type_readable && !made->quic));
	bool held;

	if (made->stack == SSLL_STACK_GNUTLS)
		return expected_of_gnutls(made);
	if (made->stack == SSLL_STACK_MBEDTLS)
		return expected_of_mbedtls(made);
	if (made->stack == SSLL_STACK_S2N)
		return expected_of_s2n(made);
	held = !made->held || (made->holder_readable && !made->holder_null);

	if (!is_connection || !held || !can_read(made->rwstate))
		return expected_retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	if (made->stack == SSLL_STACK_WOLFSSL)
		return expected_of_wolfssl(made);
	return made->stack == SSLL_STACK_BORINGSSL ? expected_of_boringssl(made) : expected_of_openssl(made);
}

static __u64 in_one_word(struct verdict verdict)
{
	return verdict.outcome << 24 | verdict.wait << 16 | verdict.end << 8 | verdict.reason;
}

static void judge_connections(long number, long told[VERDICTS])
{
	for (long i = 0; i < number; i++) {
		struct made_connection made = any_connection();
		struct verdict verdict, expected = expected_of(&made);
		struct ssll_library library;
		__u64 ssl = lay_connection(&made, &library);

		verdict = judge_ssl(ssl, made.returned, &library);
		if (in_one_word(verdict) != in_one_word(expected))
			differ("outcome, wait, end and reason", in_one_word(verdict), in_one_word(expected));
		told[verdict.outcome * 32 + verdict.reason]++;
	}
}

/* What a function returns that tells its errors so: openssl/ssl.h, GnuTLS's manual, Go's language specification. */
static bool expected_success(__u32 returns, __u32 convention, __s32 number, __u64 returned)
{
	if (returns == SSLL_RETURNS_NEGATIVE_ERROR)
		return number > -1 && (convention != SSLL_SSL_IO || number);
	if (returns == SSLL_RETURNS_GO_ERROR)
		return returned == 0;
	if (convention == SSLL_SSL_HANDSHAKE || convention == SSLL_ONE)
		return number == 1;
	if (convention == SSLL_SSL_IO || convention == SSLL_SSL_EX || convention == SSLL_POSITIVE)
		return number >= 1;
	if (convention == SSLL_SSL_SHUTDOWN || convention == SSLL_LENGTH)
		return number > -1;
	if (convention == SSLL_POINTER)
		return returned;
	if (convention != SSLL_MBX8)
		return true;
	for (__u32 lane = 0; lane < 8; lane++) {
		__u32 status = returned >> 4 * lane & 15;

		if (status && !(status & 2)) /* failed, and in use */
			return false;
	}
	return true;
}

static void judge_returns(long number)
{
	static const __u64 often[] = {0, 1, 2, ~0ULL, 0xffffffffULL, 1ULL << 32, 1ULL << 31, 0x80000001ULL};

	for (long i = 0; i < number; i++) {
		__u64 returned = once_in(2) ? often[any(8)] : any_word();
		__u64 convention = any(16), returns = any(3), cookie;

		if (convention == SSLL_MBX8 && once_in(2))
			returned &= 0x22222222U | 1U << any(32);
		cookie = any_word() & ~(3ULL << SSLL_COOKIE_RETURNS | 15ULL << SSLL_COOKIE_CONVENTION);
		cookie |= returns << SSLL_COOKIE_RETURNS | convention << SSLL_COOKIE_CONVENTION;
		if (succeeded(cookie, returned) != expected_success(returns, convention, (__s32)returned, returned))
			differ("success by convention", convention, returned);
	}
}

/* Prints the code, of a connection or one that was returned, and what is told of it. */
static void print_verdict(__u32 code, const struct made_connection *made)
{
	struct ssll_library library;
	struct verdict verdict = judge_ssl(lay_connection(made, &library), made->returned, &library);

	printf("%u %u %u %u %u %u\n", code, verdict.outcome, verdict.wait, part_of_wait(verdict.wait), verdict.end,
	        verdict.reason);
}

/* Those of all of its errors, with output that is still to go out and without. */
static void print_verdicts_of_s2n(void)
{
	for (__u32 i = 0; i < sizeof(s2n_errors) / sizeof(*s2n_errors); i++) {
		for (__u32 pending = 0; pending < 2; pending++) {
			struct made_connection made = {
			        .stack = SSLL_STACK_S2N,
			        .returned = -1,
			        .rwstate = {true, true, s2n_errors[i]},
			        .shutdown = {true, true, pending},
			};

			if (s2n_errors[i] != 0x0c000003) /* of no wait that has a name */
				print_verdict(s2n_errors[i], &made);
		}
	}
}

/* That of all codes of a stack, and of all waits of a BIO: its lowest three flags, its reasons up to 3. */
static void print_verdicts(__u32 stack)
{
	bool gnutls = stack == SSLL_STACK_GNUTLS, wolfssl = stack == SSLL_STACK_WOLFSSL;

	for (__s32 code = 0; stack == SSLL_STACK_MBEDTLS && code < 0x8000; code++) {
		struct made_connection made = {.stack = stack, .returned = -code};

		print_verdict(code, &made);
	}
	if (stack == SSLL_STACK_MBEDTLS)
		return;
	if (stack == SSLL_STACK_S2N) {
		print_verdicts_of_s2n();
		return;
	}
	for (__s32 code = wolfssl ? -600 : 0; code < (wolfssl ? 0 : gnutls ? 2 : 128); code++) {
		for (__u32 kind = 0; kind < 32; kind++) {
			struct made_bio bio = {true, true, false, true, true, kind % 8, kind / 8};
			struct made_connection made = {
			        .stack = stack,
			        .returned = gnutls ? -28 : -1,
			        .rwstate = {true, true, code},
			        .shutdown = {true, true, 0},
			        .state = {true, true, 0},
			        .reading = bio,
			        .writing = bio,
			};

			print_verdict(code, &made);
		}
	}
}

int main(int count, char **words)
{
	long number = count > 1 ? atol(words[1]) : 1000, told[VERDICTS] = {};

	if (count > 2) { /* the number of a stack */
		print_verdicts(atoi(words[2]));
		return 0;
	}
	judge_connections(number, told);
	judge_returns(number);
	for (__u32 i = 0; i < VERDICTS; i++) {
		if (told[i])
			printf("%u %u %ld\n", i / 32, i % 32, told[i]);
	}
	return 0;
}
