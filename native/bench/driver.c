/*
 * A driver whose calls cost as little as calls can, so that what a library adds is not hidden behind what they do; a launch takes
 * STUB_LAUNCH_NS, as a real one takes some two microseconds.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int launch_ns;

/* Every other call of the tables (stubs/calls.c), for libraries that look all of them up. */
int stub_done(void);
int stub_done(void)
{
	return 0;
}

EXPORT int cuInit(int flags)
{
	launch_ns = getenv("STUB_LAUNCH_NS") == NULL ? 0 : atoi(getenv("STUB_LAUNCH_NS"));
	return flags;
}

EXPORT int cuDeviceGetCount(int *count)
{
	*count = 1;
	return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 1;
	return 0 * (attribute + device);
}

EXPORT int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
	memset(uuid, 0, 16);
	return device;
}

EXPORT int cuCtxCreate_v2(void **context, int flags, int device)
{
	*context = context;
	return flags + device;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	return cuDeviceGetUuid(uuid, device);
}

EXPORT int cuCtxGetDevice(int *device)
{
	*device = 0;
	return 0;
}

EXPORT int cuCtxSynchronize(void)
{
	return 0;
}

EXPORT int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int bytes, void *stream, void *params, void *extra)
{
	struct timespec begin, now;

	(void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)bytes, (void)stream, (void)params, (void)extra;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < launch_ns);
	return 0;
}
