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
	int xid;
	int error;
	const char *name;
} errors[] = {
	/* xids: the rows that `make xids` writes */
	{ 13, 719, "Graphics engine exception" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 31, 700, "GPU memory page fault" }, /* CUDA_ERROR_ILLEGAL_ADDRESS */
	{ 43, 719, "GPU stopped processing" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 45, 719, "Preemptive cleanup, due to previous errors" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 46, 719, "GPU stopped processing, reset needed" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 48, 214, "Double-bit ECC error" }, /* CUDA_ERROR_ECC_UNCORRECTABLE */
	{ 62, 719, "Internal micro-controller halt" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 64, 214, "Row remapping failed" }, /* CUDA_ERROR_ECC_UNCORRECTABLE */
	{ 74, 220, "NVLink error" }, /* CUDA_ERROR_NVLINK_UNCORRECTABLE */
	{ 79, 100, "GPU has fallen off the bus" }, /* CUDA_ERROR_NO_DEVICE */
	{ 94, 214, "Contained ECC error" }, /* CUDA_ERROR_ECC_UNCORRECTABLE */
	{ 95, 999, "Uncontained ECC error" }, /* CUDA_ERROR_UNKNOWN */
	{ 109, 719, "Context switch timeout" }, /* CUDA_ERROR_LAUNCH_FAILED */
	{ 119, 999, "GSP RPC timeout" }, /* CUDA_ERROR_UNKNOWN */
	{ 120, 999, "GSP error" }, /* CUDA_ERROR_UNKNOWN */
	{ 140, 214, "Unrecovered ECC error" }, /* CUDA_ERROR_ECC_UNCORRECTABLE */
	/* xids: end */
};

/* A number of one to three digits as it is usually written; -1 for anything else. */
static int xid_of(const char *text)
{
	int number = 0;
	size_t length = strlen(text);

	if (length == 0 || length > 3 || text[0] == '0')
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = 10 * number + (text[i] - '0');
	}
	return number;
}

/* 0 unless the variables ask for a fault that we know. Never allocates, prints or fails. */
static int injected_error(void)
{
	const char *enabled = getenv("CUDA_FAULT_INJECTION_ENABLED");
	const char *xid = getenv("CUDA_XID_TYPE");

	if (enabled == NULL || strcmp(enabled, "1") != 0 || xid == NULL)
		return 0;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].xid == xid_of(xid))
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
