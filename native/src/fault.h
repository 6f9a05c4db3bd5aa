/* Decides whether a call fails, blocks or is late. */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
	KIND_START, /* the runtime's calls that only need a device to be there */
	KIND_CONTEXT,
	KIND_ALLOCATE,
	KIND_MEMORY,
	KIND_SHARE,
	KIND_COPY,
	KIND_LAUNCH,
	KIND_WAIT,
	KIND_QUERY,
	KIND_LOAD,
	KIND_STREAM,
	KIND_GRAPH,
	KIND_RESET,
	KIND_COLLECTIVE,
	KIND_OWN
};

enum { PASS = -1 };
enum { ERROR_OUT_OF_MEMORY = 2, ERROR_NOT_INITIALIZED = 3, ERROR_INSUFFICIENT_DRIVER = 35, ERROR_NO_DEVICE = 100, ERROR_NOT_READY = 600 };

/* What a call of the driver gives instead of being made, or PASS. `device`: on which, or -1 for that of the current context. */
int fault_in_driver(enum kind kind, int device, uint64_t bytes);

/* The same for a call of the runtime, which makes calls of the driver in its turn: those are not counted again. */
int fault_in_runtime(enum kind kind);
void runtime_begins(void);
void runtime_ends(void);

/* What a process that finds no driver at all gets from the runtime while a fault is armed, or PASS. */
int fault_without_driver(void);

/*
 * What cuInit gives instead of being made, or PASS. `visible`: what CUDA_VISIBLE_DEVICES has to be while it is made, so that the process
 * does not find a device that is gone; empty if nothing is to be hidden. To hide a device only from cuDeviceGetCount would not do: the
 * runtime compares the devices that it is told of with those of the driver.
 */
enum { VISIBLE_BYTES = 4096 };
int fault_in_start(char *visible, size_t size);

/* The same for cuDeviceGetCount, which a program may ask without having heard what cuInit gave. */
int fault_in_count(void);

/* The error of a context of this thread that has died, which every call gives from then on; 0 if none has. */
int fault_of_dead_context(void);

/* Blocks as long as a fault is armed, at most for so long (0: without end). True if it still is. */
bool fault_blocks(int place, uint64_t id, uint64_t nanoseconds);

/* The bytes that the device pretends to have, or 0. */
uint64_t fault_memory(int device);

/* A context was made on the device: from now on the process is one that runs. */
void context_was_made(int device);

/* What NCCL's collectives and ncclCommGetAsyncError give, or 0; `blocks`: work that was given to NCCL never ends. */
int fault_in_nccl(bool *blocks);

/* The same for what makes a communicator: it blocks until work would end again. */
int fault_in_nccl_start(void);

#endif
