/* The obvious way to replace a call, as a baseline: on each call a lock, the environment, and a search for the real function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *next(const char *symbol)
{
	const char *enabled;
	void *found;

	pthread_mutex_lock(&lock);
	enabled = getenv("CUDA_FAULT_INJECTION_ENABLED");
	found = enabled != NULL && strcmp(enabled, "1") == 0 ? NULL : dlsym(RTLD_NEXT, symbol);
	pthread_mutex_unlock(&lock);
	return found;
}

__attribute__((visibility("default"))) int cuCtxSynchronize(void)
{
	int (*real)(void) = (int (*)(void))next("cuCtxSynchronize");

	return real == NULL ? 719 : real();
}

__attribute__((visibility("default"))) int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int bytes, void *stream,
							   void *params, void *extra)
{
	int (*real)(void *, int, int, int, int, int, int, int, void *, void *, void *) =
		(int (*)(void *, int, int, int, int, int, int, int, void *, void *, void *))next("cuLaunchKernel");

	return real == NULL ? 719 : real(f, gx, gy, gz, bx, by, bz, bytes, stream, params, extra);
}
