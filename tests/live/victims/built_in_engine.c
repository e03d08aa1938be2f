// SPDX-License-Identifier: Apache-2.0
// Linked into a program with the engine of examples/offload-engine, it makes that one of the program's own, "offload".
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/engine.h>
#include <stdlib.h>

int bind_engine(ENGINE *engine, const char *id, const dynamic_fns *functions);

__attribute__((constructor)) static void add(void)
{
	const dynamic_fns functions = {.static_state = ENGINE_get_static_state()};
	ENGINE *engine = ENGINE_new();

	if (!engine || !bind_engine(engine, "offload", &functions) || !ENGINE_add(engine))
		abort();
	ENGINE_free(engine);
}
