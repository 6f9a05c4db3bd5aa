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

EXPORT int cudaGetLastError(void)
{
	int(*real)(void) = REAL(cudaGetLastError, (void));
	int error = last_error, found = real == NULL ? 0 : real();

	last_error = 0;
	return error != 0 ? error : found;
}

EXPORT int cudaPeekAtLastError(void)
{
	int(*real)(void) = REAL(cudaPeekAtLastError, (void));

	if (last_error != 0)
		return last_error;
	return real == NULL ? 0 : real();
}
