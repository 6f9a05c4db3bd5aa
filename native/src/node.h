/* The GPUs of the node, as the kernel's driver lists them, and which of them a process may see. */
#ifndef NODE_H
#define NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef GPU_FOLDER
#define GPU_FOLDER "/proc/driver/nvidia/gpus"
#endif

struct gpu {
	uint64_t address; /* domain << 16 | bus << 8 | device */
	uint64_t uuid[2];
};

/* The node's GPUs by address, which is how nvidia-smi counts them; read once. Returns how many; 0 where they are not listed. */
int node_gpus(const struct gpu **gpus);

/*
 * Writes the value for CUDA_VISIBLE_DEVICES that leaves out the GPUs of which `hidden` is true, beginning from the process's own value.
 * Returns how many GPUs are left, or -1 if the node's GPUs are not known.
 */
int node_visible(char *list, size_t size, bool (*hidden)(const struct gpu *gpu, int number));

#endif
