/* Another library that is preloaded and replaces cuInit, too, and one that calls CUDA while it is being loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int other_calls, other_constructed = -1;

EXPORT int cuInit(int flags)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "cuInit");

	other_calls++;
	return next == NULL ? 0 : next(flags);
}

__attribute__((constructor)) static void early(void)
{
	int (*first)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "cuInit");

	other_constructed = first == NULL ? -2 : first(0);
}
