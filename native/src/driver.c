/* The calls of the CUDA driver API (libcuda.so.1). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "device.h"

static const char VISIBLE_DEVICES[] = "CUDA_VISIBLE_DEVICES";

#define TABLE "driver.def"
#define LIBRARY DRIVER
#define NAME driver_table
#include "slots.inc"

/* `extra` is the device of a new context, and the bytes of an allocation. */
static int instead(enum kind kind, uint64_t extra)
{
	return fault_in_driver(kind, kind == KIND_CONTEXT ? (int)extra : -1, kind == KIND_ALLOCATE ? extra : 0);
}

static int made(enum kind kind, uint64_t extra, int result)
{
	if (kind == KIND_CONTEXT && result == 0)
		context_was_made((int)extra);
	return result;
}

#define CALL(symbol, base, version, kind, extra, params, names)                            \
	EXPORT int symbol params                                                           \
	{                                                                                  \
		struct slot *slot = &slots[AT(symbol)];                                    \
		int(*real) params = KNOWN(*slot, params);                                  \
		int error;                                                                 \
                                                                                           \
		if (KIND_##kind != KIND_CONTEXT && LIKELY(disarmed() && real != NULL))     \
			return real names;                                                 \
		if ((error = instead(KIND_##kind, (uint64_t)(extra))) != PASS)             \
			return error;                                                      \
		if ((real = FOUND(*slot, params)) == NULL)                                 \
			return ERROR_NOT_INITIALIZED;                                      \
		return made(KIND_##kind, (uint64_t)(extra), real names);                   \
	}
#define OWN(symbol, base, version, kind, extra, params, names)
#include "driver.def"
#undef CALL
#undef OWN

static int initialised(int(*real)(int), int flags)
{
	char visible[VISIBLE_BYTES], *own;
	int result, error = fault_in_start(visible, sizeof(visible));

	if (error != PASS)
		return error;
	if (visible[0] == '\0')
		return real(flags);
	own = getenv(VISIBLE_DEVICES) == NULL ? NULL : strdup(getenv(VISIBLE_DEVICES));
	setenv(VISIBLE_DEVICES, visible, 1);
	result = real(flags);
	if (own == NULL)
		unsetenv(VISIBLE_DEVICES);
	else
		setenv(VISIBLE_DEVICES, own, 1);
	free(own);
	return result;
}

static int without_driver(void)
{
	int error = fault_without_driver();

	return error == PASS ? ERROR_NOT_INITIALIZED : error;
}

EXPORT int cuInit(int flags)
{
	int(*real)(int) = REAL(cuInit, (int)), saved = errno, result;

	if (disarmed())
		return real == NULL ? ERROR_NOT_INITIALIZED : real(flags);
	result = real == NULL ? without_driver() : initialised(real, flags);
	errno = saved;
	return result;
}

/* Without cuInit it fails by itself: what matters is a program that asks nothing else. */
EXPORT int cuDeviceGetCount(void *count)
{
	int(*real)(void *) = REAL(cuDeviceGetCount, (void *)), error;

	if (real == NULL)
		return without_driver();
	if (!disarmed() && (error = fault_in_count()) != PASS)
		return error;
	return real(count);
}

static int total_memory(struct slot *slot, size_t *bytes, int device)
{
	int(*real)(size_t *, int) = FOUND(*slot, (size_t *, int));
	int result = real == NULL ? ERROR_NOT_INITIALIZED : real(bytes, device);
	uint64_t least = result == 0 && bytes != NULL ? fault_memory(device) : 0;

	if (least != 0 && least < *bytes)
		*bytes = least;
	return result;
}

EXPORT int cuDeviceTotalMem_v2(void *bytes, int device)
{
	return total_memory(&slots[AT(cuDeviceTotalMem_v2)], bytes, device);
}

/* Sizes of 32 bits, as programs of CUDA 3.1 and before ask for them: nothing that a cap could be below. */
EXPORT int cuDeviceTotalMem(void *bytes, int device)
{
	int(*real)(void *, int) = REAL(cuDeviceTotalMem, (void *, int));

	return real == NULL ? ERROR_NOT_INITIALIZED : real(bytes, device);
}

/* What is used is used: a smaller device has that much less free. */
EXPORT int cuMemGetInfo_v2(void *free_bytes, void *total)
{
	int(*real)(size_t *, size_t *) = REAL(cuMemGetInfo_v2, (size_t *, size_t *));
	int result = fault_in_driver(KIND_MEMORY, -1, 0);
	size_t *left = free_bytes, *all = total, in_use;
	uint64_t least;

	if (result != PASS)
		return result;
	result = real == NULL ? ERROR_NOT_INITIALIZED : real(left, all);
	least = result == 0 && left != NULL && all != NULL ? fault_memory(-1) : 0;
	if (least == 0 || least >= *all)
		return result;
	in_use = *all - *left;
	*left = in_use < least ? least - in_use : 0;
	*all = least;
	return result;
}

EXPORT int cuMemGetInfo(void *free_bytes, void *total)
{
	int(*real)(void *, void *) = REAL(cuMemGetInfo, (void *, void *));
	int error = fault_in_driver(KIND_MEMORY, -1, 0);

	if (error != PASS)
		return error;
	return real == NULL ? ERROR_NOT_INITIALIZED : real(free_bytes, total);
}

typedef int (*address_fn)(const char *symbol, void **found, int version, uint64_t flags);
typedef int (*address_v2_fn)(const char *symbol, void **found, int version, uint64_t flags, void *status);

/* The driver's function of exactly this version, as cuGetProcAddress gives it. */
static void *of_version(const char *symbol, int version, uint64_t flags)
{
	address_v2_fn second = (address_v2_fn)real_of(&slots[AT(cuGetProcAddress_v2)]);
	address_fn first = (address_fn)real_of(&slots[AT(cuGetProcAddress)]);
	void *found = NULL;
	int status, result = -1;

	if (second != NULL)
		result = second(symbol, &found, version, flags, &status);
	else if (first != NULL)
		result = first(symbol, &found, version, flags);
	return result == 0 ? found : NULL;
}

struct slot *slot_of_version(const char *symbol, int version, uint64_t flags);

/*
 * Puts our function in the place of the driver's. The driver may have a newer version of a call than the table, with other arguments:
 * only if it gives the same function for the table's version is it the one that we know.
 */
static void replace(const char *symbol, void **found, int version, uint64_t flags)
{
	struct slot *slot;

	if (symbol == NULL || found == NULL || *found == NULL)
		return;
	slot = slot_of_version(symbol, version, flags);
	if (slot == NULL || *found == slot->replacement || of_version(symbol, slot->version, flags) != *found)
		return;
	real_is(slot, *found);
	*found = slot->replacement;
}

EXPORT int cuGetProcAddress(void *symbol, void *found, int version, uint64_t flags)
{
	address_fn real = (address_fn)real_of(&slots[AT(cuGetProcAddress)]);
	int result = real == NULL ? ERROR_NOT_INITIALIZED : real(symbol, found, version, flags);

	if (result == 0)
		replace(symbol, found, version, flags);
	return result;
}

EXPORT int cuGetProcAddress_v2(void *symbol, void *found, int version, uint64_t flags, void *status)
{
	address_v2_fn real = (address_v2_fn)real_of(&slots[AT(cuGetProcAddress_v2)]);
	int result = real == NULL ? ERROR_NOT_INITIALIZED : real(symbol, found, version, flags, status);

	if (result == 0)
		replace(symbol, found, version, flags);
	return result;
}
