/* Which of the node's GPUs a device of this process is. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include "layout.h"
#include "node.h"

enum { MOST_DEVICES = 64 };

/* The device of the calling thread's context, or -1. */
int device_current(void);

/* How many devices the real driver has, or -1 where it cannot be asked yet. */
int device_count(void);

/* True if the fault is one of this device (-1: of no known one). */
bool device_is_meant(const uint64_t fault[FAULT_WORDS], int device);

/* The same for a GPU that the process may not have opened yet; `number`: its place among the node's. */
bool gpu_is_meant(const uint64_t fault[FAULT_WORDS], const struct gpu *gpu, int number);

/* The two halves of a UUID written as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. False if it is none. */
bool uuid_of(const char *text, uint64_t *first, uint64_t *second);

#endif
