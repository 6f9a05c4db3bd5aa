/*
 * A driver without a GPU: libcuda.so.1 for tests. It succeeds in everything and does nothing, except what a program must learn to go on:
 * how many devices there are (STUB_GPUS, 8), what they are called, and how much memory they have and have left. The CUDA runtime runs on
 * it; what that asks of the driver beside the published calls (cuGetExportTable) answers in the way that ZLUDA's authors found out and
 * published: the facts of tables and their places, see https://github.com/vosen/ZLUDA, dark_api.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

enum { MOST = 64, FIRST_BUS = 0x30 };
static const size_t TOTAL = (size_t)80 << 30;

static atomic_bool started;
static int visible[MOST], visible_count;
static _Atomic size_t allocated;
static _Thread_local int current = -1;
static char contexts[MOST];

/* How often a call arrived here; a test looks at it to see that nothing was passed on. */
EXPORT _Atomic unsigned long stub_calls;

int stub_devices(void)
{
	return visible_count;
}

void stub_uuid(unsigned char uuid[16], int device)
{
	memset(uuid, 0, 16);
	uuid[15] = (unsigned char)visible[device];
}

int stub_bus(int device)
{
	return FIRST_BUS + visible[device];
}

/* An entry of CUDA_VISIBLE_DEVICES: a number, or a UUID, whose last digits are the number here. */
static int entry_of(const char *entry)
{
	const char *dash = entry;

	if (strncmp(entry, "GPU-", 4) != 0)
		return atoi(entry);
	for (int i = 0; i < 5; i++)
		dash = strchr(dash, '-') + 1;
	return (int)strtol(dash, NULL, 16);
}

static void look_for_devices(void)
{
	int all = getenv("STUB_GPUS") == NULL ? 8 : atoi(getenv("STUB_GPUS"));
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (list == NULL) {
		for (visible_count = 0; visible_count < all; visible_count++)
			visible[visible_count] = visible_count;
		return;
	}
	for (visible_count = 0; *list != '\0'; list++) {
		visible[visible_count++] = entry_of(list);
		list += strcspn(list, ",");
		if (*list == '\0')
			return;
	}
}

int stub_done(void)
{
	atomic_fetch_add_explicit(&stub_calls, 1, memory_order_relaxed);
	return atomic_load_explicit(&started, memory_order_relaxed) ? SUCCESS : NOT_INITIALIZED;
}

/* Handles that calls give back are never read, only handed on; the runtime keeps tables of them, so that each is another one. */
static int gave(void *where)
{
	static _Atomic uintptr_t last = 0x10000;
	int result = stub_done();

	if (result == SUCCESS && where != NULL)
		*(uintptr_t *)where = atomic_fetch_add(&last, 16);
	return result;
}

EXPORT int cuInit(int flags)
{
	if (flags != 0)
		return INVALID_VALUE;
	if (!atomic_load(&started))
		look_for_devices();
	if (visible_count == 0)
		return NO_DEVICE;
	atomic_store(&started, true);
	return stub_done();
}

static int number(void *where, int value)
{
	int result = stub_done();

	if (result == SUCCESS)
		*(int *)where = value;
	return result;
}

static int size(void *where, size_t value)
{
	int result = stub_done();

	if (result == SUCCESS)
		*(size_t *)where = value;
	return result;
}

EXPORT int cuDriverGetVersion(int *version)
{
	*version = STUB_VERSION;
	return SUCCESS;
}

EXPORT int cuDeviceGetCount(void *count)
{
	return number(count, stub_devices());
}

EXPORT int cuDeviceGet(void *device, int ordinal)
{
	return ordinal < 0 || ordinal >= stub_devices() ? INVALID_DEVICE : number(device, ordinal);
}

EXPORT int cuDeviceTotalMem_v2(void *bytes, int device)
{
	return device < 0 || device >= stub_devices() ? INVALID_DEVICE : size(bytes, TOTAL);
}

EXPORT int cuDeviceGetName(char *name, int length, int device)
{
	snprintf(name, (size_t)length, "Stub GPU %d", visible[device]);
	return stub_done();
}

/* GPU-00000000-0000-0000-0000-00000000000n */
EXPORT int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
	stub_uuid(uuid, device);
	return stub_done();
}

EXPORT int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	return cuDeviceGetUuid(uuid, device);
}

/* 0000:3n:00.0 */
enum { WARP_SIZE = 10, PCI_BUS = 33, PCI_DEVICE = 34, PCI_DOMAIN = 50, MAJOR = 75, MINOR = 76 };

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	switch (attribute) {
	case PCI_BUS:
		return number(value, stub_bus(device));
	case PCI_DEVICE:
	case PCI_DOMAIN:
	case MINOR:
		return number(value, 0);
	case MAJOR:
		return number(value, 9);
	case WARP_SIZE:
		return number(value, 32);
	default:
		return number(value, 1);
	}
}

EXPORT int cuDeviceGetPCIBusId(char *text, int length, int device)
{
	snprintf(text, (size_t)length, "0000:%02x:00.0", stub_bus(device));
	return stub_done();
}

static int context(void *where, int device)
{
	int result = stub_done();

	if (device < 0 || device >= stub_devices())
		return INVALID_DEVICE;
	if (result == SUCCESS)
		*(void **)where = &contexts[device];
	return result;
}

EXPORT int cuDevicePrimaryCtxRetain(void *where, int device)
{
	return context(where, device);
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	(void)device;
	*flags = 0;
	return number(active, 1);
}

static int created(void *where, int device)
{
	int result = context(where, device);

	if (result == SUCCESS)
		current = device;
	return result;
}

EXPORT int cuCtxCreate(void *where, int flags, int device)
{
	(void)flags;
	return created(where, device);
}

EXPORT int cuCtxCreate_v2(void *where, int flags, int device)
{
	(void)flags;
	return created(where, device);
}

EXPORT int cuCtxCreate_v3(void *where, void *affinity, int count, int flags, int device)
{
	(void)affinity, (void)count, (void)flags;
	return created(where, device);
}

EXPORT int cuCtxCreate_v4(void *where, void *settings, int flags, int device)
{
	(void)settings, (void)flags;
	return created(where, device);
}

EXPORT int cuCtxSetCurrent(void *which)
{
	current = which == NULL ? -1 : (int)((char *)which - contexts);
	return stub_done();
}

EXPORT int cuCtxPushCurrent_v2(void *which)
{
	return cuCtxSetCurrent(which);
}

EXPORT int cuCtxGetCurrent(void **which)
{
	*which = current < 0 ? NULL : &contexts[current];
	return stub_done();
}

EXPORT int cuCtxPopCurrent_v2(void **which)
{
	return which == NULL ? stub_done() : cuCtxGetCurrent(which);
}

EXPORT int cuCtxGetDevice(int *device)
{
	return current < 0 ? INVALID_CONTEXT : number(device, current);
}

EXPORT int cuMemGetInfo_v2(void *left, void *total)
{
	*(size_t *)left = TOTAL - atomic_load(&allocated);
	return size(total, TOTAL);
}

/* The address says how much it was: no table of allocations. */
EXPORT int cuMemAlloc_v2(void *where, uint64_t bytes)
{
	atomic_fetch_add(&allocated, bytes);
	return size(where, bytes << 8);
}

EXPORT int cuMemFree_v2(uint64_t where)
{
	atomic_fetch_sub(&allocated, where >> 8);
	return stub_done();
}

static int host_memory(void *where, uint64_t bytes)
{
	int saved = errno;

	*(void **)where = calloc(1, bytes);
	errno = saved;
	return stub_done();
}

EXPORT int cuMemHostAlloc(void *where, uint64_t bytes, int flags)
{
	(void)flags;
	return host_memory(where, bytes);
}

EXPORT int cuMemAllocHost_v2(void *where, uint64_t bytes)
{
	return host_memory(where, bytes);
}

EXPORT int cuStreamCreate(void *where, int flags)
{
	(void)flags;
	return gave(where);
}

EXPORT int cuStreamCreateWithPriority(void *where, int flags, int priority)
{
	(void)flags, (void)priority;
	return gave(where);
}

EXPORT int cuEventCreate(void *where, int flags)
{
	(void)flags;
	return gave(where);
}

/* What a program has loaded, and finds in it. */
EXPORT int cuLibraryLoadData(void *library, void *code, void *jit, void *jit_values, int jit_count, void *options, void *values, int count)
{
	(void)code, (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	return gave(library);
}

EXPORT int cuLibraryGetKernel(void *kernel, void *library, void *name)
{
	(void)library, (void)name;
	return gave(kernel);
}

EXPORT int cuLibraryGetModule(void *module, void *library)
{
	(void)library;
	return gave(module);
}

EXPORT int cuKernelGetFunction(void *function, void *kernel)
{
	(void)kernel;
	return gave(function);
}

EXPORT int cuModuleGetFunction(void *function, void *module, void *name)
{
	(void)module, (void)name;
	return gave(function);
}

EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
	(void)stream;
	return number(status, 0);
}

/* Of all versions: what they tell beside the status means something only while a graph is captured. */
EXPORT int cuStreamGetCaptureInfo(void *stream, int *status)
{
	return cuStreamIsCapturing(stream, status);
}

/* What Triton is linked with beside the calls of the tables. */
EXPORT int cuCtxGetLimit(size_t *value, int limit)
{
	(void)limit;
	return size(value, 1024);
}

EXPORT int cuCtxSetLimit(int limit, size_t value)
{
	(void)limit, (void)value;
	return stub_done();
}

enum { MAX_THREADS_PER_BLOCK = 0 };

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function)
{
	(void)function;
	return number(value, attribute == MAX_THREADS_PER_BLOCK ? 1024 : 0);
}

EXPORT int cuFuncSetCacheConfig(void *function, int config)
{
	(void)function, (void)config;
	return stub_done();
}

EXPORT int cuPointerGetAttribute(uint64_t *value, int attribute, uint64_t pointer)
{
	(void)attribute;
	return size(value, pointer);
}

EXPORT int cuGetErrorString(int error, const char **text)
{
	*text = error == SUCCESS ? "no error" : "an error";
	return SUCCESS;
}
