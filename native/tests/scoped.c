/*
 * A library that is linked with the driver and looks up a call in its own scope, as it may when it was opened with RTLD_LOCAL; and one
 * (OUTER) that is linked with it, so that nobody opens it by name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuDriverGetVersion(int *version);

#define EXPORT __attribute__((visibility("default")))

EXPORT int synchronize(void);
#ifdef OUTER
EXPORT int outer(void);
int outer(void)
{
	return synchronize();
}
#else
int synchronize(void)
{
	int (*call)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cuCtxSynchronize"), version;

	return call == NULL || cuDriverGetVersion(&version) != 0 ? -1 : call();
}
#endif
