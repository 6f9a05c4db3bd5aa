/* Replaces two CUDA driver calls so that a program sees a failed GPU. See README.md. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTERPOSED __attribute__((visibility("default")))

typedef int (*init_fn)(unsigned int);
typedef int (*count_fn)(int *);

/* Numbers of the CUDA driver API (cuda.h); the runtime API uses the same ones. */
static const struct {
	const char *xid;
	int error;
} errors[] = {
	{ "79", 100 }, { "48", 214 }, { "94", 214 }, { "95", 999 }, { "43", 702 }, { "74", 220 },
};

/* 0 unless the variables ask for a fault that we know. Never allocates, prints or fails. */
static int injected_error(void)
{
	const char *enabled = getenv("CUDA_FAULT_INJECTION_ENABLED");
	const char *xid = getenv("CUDA_XID_TYPE");

	if (enabled == NULL || strcmp(enabled, "1") != 0 || xid == NULL)
		return 0;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(xid, errors[i].xid) == 0)
			return errors[i].error;
	return 0;
}

/* Looked up on first use: a constructor would run before the real library is there. */
static void *real(const char *name)
{
	int saved = errno;
	void *found = dlsym(RTLD_NEXT, name);

	errno = saved;
	return found;
}

enum { CUDA_ERROR_NOT_INITIALIZED = 3 };

INTERPOSED int cuInit(unsigned int flags)
{
	int error = injected_error();
	init_fn call;

	if (error != 0)
		return error;
	call = (init_fn)real("cuInit");
	return call == NULL ? CUDA_ERROR_NOT_INITIALIZED : call(flags);
}

INTERPOSED int cuDeviceGetCount(int *count)
{
	int error = injected_error();
	count_fn call;

	if (error != 0)
		return error;
	call = (count_fn)real("cuDeviceGetCount");
	return call == NULL ? CUDA_ERROR_NOT_INITIALIZED : call(count);
}
