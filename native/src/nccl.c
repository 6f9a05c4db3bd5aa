/*
 * The calls of NCCL (libnccl.so.2). A GPU that dies is seen by the other ranks as an error that comes later, or as work that never ends:
 * then nothing is given to NCCL, and whoever waits for its stream waits (fault.c).
 */
#include "calls.h"

#define TABLE "nccl.def"
#define LIBRARY NCCL
#define NAME nccl_table
#include "slots.inc"

enum { NCCL_SUCCESS = 0, NCCL_SYSTEM_ERROR = 2 };

/* True if a call is not made; then it gives this. What makes a communicator cannot return without one: it waits. */
static bool stopped(enum kind kind, int *result)
{
	bool blocks = false;

	*result = NCCL_SUCCESS;
	if (disarmed())
		return false;
	*result = kind == KIND_START ? fault_in_nccl_start() : fault_in_nccl(&blocks);
	return *result != NCCL_SUCCESS || blocks;
}

#define CALL(symbol, base, version, kind, extra, params, names)               \
	EXPORT int symbol params                                              \
	{                                                                     \
		int(*real) params = FOUND(slots[AT(symbol)], params), result; \
                                                                              \
		if (stopped(KIND_##kind, &result))                                         \
			return result;                                        \
		return real == NULL ? NCCL_SYSTEM_ERROR : real names;         \
	}
#define OWN(symbol, base, version, kind, extra, params, names)
#include "nccl.def"
#undef CALL
#undef OWN

/* NCCL has to know that a group is over, though what was in it may not have been given to it. */
EXPORT int ncclGroupEnd(void)
{
	int(*real)(void) = REAL(ncclGroupEnd, (void)), result = real == NULL ? NCCL_SYSTEM_ERROR : real(), found;
	bool blocks;

	found = disarmed() ? NCCL_SUCCESS : fault_in_nccl(&blocks);
	return found == NCCL_SUCCESS ? result : found;
}

EXPORT int ncclCommGetAsyncError(void *communicator, void *error)
{
	int(*real)(void *, void *) = REAL(ncclCommGetAsyncError, (void *, void *));
	int result = real == NULL ? NCCL_SYSTEM_ERROR : real(communicator, error), found;
	bool blocks;

	found = fault_in_nccl(&blocks);
	if (result == NCCL_SUCCESS && found != 0 && error != NULL)
		*(int *)error = found;
	return result;
}
