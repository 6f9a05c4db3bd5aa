/*
 * The control file: what faultctl writes and every program on the node reads while it runs.
 *
 * One page of words of 64 bits, each written and read as a whole. A writer makes `sequence` odd, writes, and makes it even; a reader takes
 * a copy again if the sequence was odd or has changed. `gate` is the number of armed faults: the only word that is read while none is.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define CONTROL_MAGIC UINT64_C(0x31746c6661756300) /* "\0cuafat1" */
#define CONTROL_BYTES 4096
#define CONTROL_FAULTS 8
#ifndef CONTROL_PATH
#define CONTROL_PATH "/run/nvidia/gpu-control"
#endif
#define CONTROL_VARIABLE "CUDA_FAULT_CONTROL"

enum target { TARGET_ANY, TARGET_ORDINAL, TARGET_UUID, TARGET_PCI };
enum flag {
	FLAG_HIDE = 1,   /* a process that starts afterwards does not find the device */
	FLAG_REFUSE = 2, /* cuInit fails, whatever the device: the fabric manager or the driver is not right */
	FLAG_NCCL_HANG = 4,
	FLAG_STICKY = 8, /* a context that has failed stays dead */
};

/* A fault, word by word. Times are nanoseconds; `ARMED` is CLOCK_MONOTONIC, which containers of a node share. */
enum word {
	FAULT_ID, /* grows with each arming; 0: the place is free */
	FAULT_XID,
	FAULT_RUNNING, /* CUDA error of a process that used the device before */
	FAULT_NEW,     /* CUDA error of a process that comes later */
	FAULT_NVML,
	FAULT_NCCL,
	FAULT_TARGET,
	FAULT_TARGET_A, /* ordinal, first half of the UUID, or domain << 16 | bus << 8 | device */
	FAULT_TARGET_B,
	FAULT_ARMED,
	FAULT_DURATION, /* 0: until it is disarmed */
	FAULT_AFTER_CALLS,
	FAULT_AFTER_TIME,
	FAULT_CHANCE, /* of 2^32; 0: always */
	FAULT_SEED,
	FAULT_HANG,    /* how long a call blocks before it fails */
	FAULT_LATENCY, /* what each launch and each wait takes longer */
	FAULT_MEMORY,  /* bytes that the device pretends to have; 0: what it has */
	FAULT_ECC,    /* uncorrectable ECC errors that NVML counts */
	FAULT_FLAGS,
	FAULT_WORDS = 32
};

struct control {
	_Atomic uint64_t magic;
	_Atomic uint64_t sequence;
	_Atomic uint64_t gate;
	_Atomic uint64_t last_id;
	_Atomic uint64_t fault[CONTROL_FAULTS][FAULT_WORDS];
};

_Static_assert(sizeof(struct control) <= CONTROL_BYTES, "the control file is one page");

#endif
