// SPDX-License-Identifier: Apache-2.0
/*
 * Says which of Intel's software offload this CPU can do, by asking the libraries themselves: how many RSA-2048 operations
 * libcrypto_mb does at a time, and whether qatengine agrees to use it. qatengine 2.0 looks at the CPU's maker before it looks
 * at what the CPU can do; libcrypto_mb doesn't.
 *
 *   lanes ENGINE_FILE       prints one word: "engine" (qatengine uses libcrypto_mb), "library" (only libcrypto_mb would work)
 *                           or "none"
 */
#include <dlfcn.h>
#include <stdio.h>

enum { MBX_ALGO_RSA_2K = 1 }; /* of crypto_mb/cpu_features.h */

int main(int argc, char **argv)
{
	void *engine;
	unsigned long long (*widths_of)(int);
	int (*agrees)(void);

	if (argc != 2) {
		fprintf(stderr, "usage: lanes ENGINE_FILE\n");
		return 2;
	}
	engine = dlopen(argv[1], RTLD_NOW); /* which loads the libcrypto_mb that it is linked with */
	if (!engine) {
		fprintf(stderr, "lanes: %s\n", dlerror());
		return 1;
	}
	*(void **)&widths_of = dlsym(engine, "mbx_get_algo_info");
	*(void **)&agrees = dlsym(engine, "qat_sw_cpu_support");
	if (!widths_of || !widths_of(MBX_ALGO_RSA_2K))
		puts("none");
	else
		puts(agrees && agrees() ? "engine" : "library");
	return 0;
}
