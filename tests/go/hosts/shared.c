// SPDX-License-Identifier: Apache-2.0

// Loads a library of Go's, the first argument, and runs it with the second.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words)
{
	void *library = count == 3 ? dlopen(words[1], RTLD_NOW) : NULL;
	void (*run)(char *) = library ? (void (*)(char *))dlsym(library, "Run") : NULL;

	if (!run) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	run(words[2]);
	return 0;
}
