/*
 * The calls of the CUDA runtime API, for programs that load libcudart.so. What the runtime asks of the driver goes through driver.c, also
 * where the runtime is linked statically; these functions see to it that a call counts once, and that a machine without any driver fails
 * as one whose GPU is gone.
 */
#include "calls.h"

#define TABLE "runtime.def"
#define LIBRARY RUNTIME
#define NAME runtime_table
#include "slots.inc"

/* The error that this thread has not asked for yet; the runtime knows only of those that it returned itself. */
static _Thread_local int last_error __attribute__((tls_model("initial-exec")));

static int failed(int error)
{
	last_error = error;
	return error;
}

/*
 * An error that leaves a context dead is not taken back: it stays the last one, however often it is asked for ("asynchronous errors are
 * sticky; they cannot be cleared", https://github.com/NVIDIA/thrust/pull/1020).
 */
static int dead(void)
{
	return disarmed() ? 0 : fault_of_dead_context();
}

/* A machine without a driver: the runtime finds none, and says 35. */
static int ended(int result)
{
	int error = PASS;

	runtime_ends();
	if (result == ERROR_INSUFFICIENT_DRIVER)
		error = fault_without_driver();
	return error == PASS ? result : failed(error);
}

static int missing(void)
{
	int error = fault_without_driver();

	return error == PASS ? ERROR_INSUFFICIENT_DRIVER : failed(error);
}

#define CALL(symbol, base, version, kind, extra, params, names)                            \
	EXPORT int symbol params                                                           \
	{                                                                                  \
		int(*real) params = KNOWN(slots[AT(symbol)], params);                      \
		int error;                                                                 \
                                                                                           \
		if (LIKELY(disarmed() && real != NULL))                                    \
			return real names;                                                 \
		if ((error = fault_in_runtime(KIND_##kind)) != PASS)                       \
			return failed(error);                                              \
		if ((real = REAL(symbol, params)) == NULL)                     \
			return missing();                                                  \
		runtime_begins();                                                          \
		return ended(real names);                                                  \
	}
#define OWN(symbol, base, version, kind, extra, params, names)
#include "runtime.def"
#undef CALL
#undef OWN

/* The beginning of cudaDeviceProp (driver_types.h), the same in CUDA 11 to 13. */
struct properties {
	char name[256], uuid[16], luid[8];
	unsigned luid_mask;
	size_t bytes;
};

/* The runtime asks the driver for a device's memory once: a fault that is armed later has to be put in here. */
static int properties(struct slot *slot, struct properties *found, int device)
{
	int(*real)(void *, int) = FOUND(*slot, (void *, int)), result;
	uint64_t least;

	if (real == NULL)
		return missing();
	if (disarmed())
		return real(found, device);
	runtime_begins();
	result = ended(real(found, device));
	least = result == 0 && found != NULL ? fault_memory(device) : 0;
	if (least != 0 && least < found->bytes)
		found->bytes = least;
	return result;
}

EXPORT int cudaGetDeviceProperties(void *found, int device)
{
	return properties(&slots[AT(cudaGetDeviceProperties)], found, device);
}

EXPORT int cudaGetDeviceProperties_v2(void *found, int device)
{
	return properties(&slots[AT(cudaGetDeviceProperties_v2)], found, device);
}

EXPORT int cudaGetLastError(void)
{
	int(*real)(void) = REAL(cudaGetLastError, (void));
	int error = last_error, found = real == NULL ? 0 : real(), sticky = dead();

	last_error = 0;
	if (sticky != 0)
		return sticky;
	return error != 0 ? error : found;
}

EXPORT int cudaPeekAtLastError(void)
{
	int(*real)(void) = REAL(cudaPeekAtLastError, (void));

	int error = dead();

	if (error == 0)
		error = last_error;
	if (error != 0)
		return error;
	return real == NULL ? 0 : real();
}
