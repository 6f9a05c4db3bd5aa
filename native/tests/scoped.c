/* A library that is linked with the driver and looks up a call in its own scope, as it may when it was opened with RTLD_LOCAL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuDriverGetVersion(int *version);

__attribute__((visibility("default"))) int synchronize(void);
int synchronize(void)
{
	int (*call)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cuCtxSynchronize"), version;

	return call == NULL || cuDriverGetVersion(&version) != 0 ? -1 : call();
}
