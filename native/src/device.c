/* Which of the node's GPUs a device of this process is. */
#include "device.h"

#include "node.h"
#include "real.h"

typedef int (*current_fn)(int *device);
typedef int (*count_fn)(int *count);
typedef int (*uuid_fn)(unsigned char uuid[16], int device);
typedef int (*bus_fn)(char *text, int size, int device);

enum { PROPERTY_PCI_BUS = 33, PROPERTY_PCI_DEVICE = 34, PROPERTY_PCI_DOMAIN = 50 };

/* Functions of the driver that we only ask, never replace for the program. */
int device_current(void)
{
	static struct kept known;
	current_fn call = (current_fn)real_kept(DRIVER, "cuCtxGetDevice", &known);
	int device;

	return call != NULL && call(&device) == 0 ? device : -1;
}

/* Not through the replaced cuDeviceGetCount: this is the number before anything is hidden. */
int device_count(void)
{
	static struct kept known;
	count_fn call = (count_fn)real_kept(DRIVER, "cuDeviceGetCount", &known);
	int count;

	if (call == NULL || call(&count) != 0)
		return -1;
	return count < MOST_DEVICES ? count : MOST_DEVICES;
}

static bool has_uuid(int device, uint64_t first, uint64_t second)
{
	static struct kept known;
	uuid_fn call = (uuid_fn)real_kept(DRIVER, "cuDeviceGetUuid", &known);
	unsigned char uuid[16];
	uint64_t halves[2] = { 0, 0 };

	if (call == NULL || call(uuid, device) != 0)
		return false;
	for (int i = 0; i < 16; i++)
		halves[i / 8] = halves[i / 8] << 8 | uuid[i];
	return halves[0] == first && halves[1] == second;
}

static int property(int which, int device)
{
	static struct kept known;
	int (*call)(int *, int, int) = (int (*)(int *, int, int))real_kept(DRIVER, "cuDeviceGetAttribute", &known);
	int value;

	return call != NULL && call(&value, which, device) == 0 ? value : -1;
}

static bool has_address(int device, uint64_t address)
{
	return property(PROPERTY_PCI_BUS, device) == (int)(address >> 8 & 0xff) &&
	       property(PROPERTY_PCI_DEVICE, device) == (int)(address & 0xff) &&
	       property(PROPERTY_PCI_DOMAIN, device) == (int)(address >> 16);
}

/* nvidia-smi's number of a device: its place among the node's GPUs. Where those are not listed, CUDA's own number. */
static bool has_ordinal(int device, uint64_t ordinal)
{
	const struct gpu *gpus;
	int count = node_gpus(&gpus);

	if (count == 0)
		return (uint64_t)device == ordinal;
	return ordinal < (uint64_t)count && has_uuid(device, gpus[ordinal].uuid[0], gpus[ordinal].uuid[1]);
}

bool device_is_meant(const uint64_t fault[FAULT_WORDS], int device)
{
	if (fault[FAULT_TARGET] == TARGET_ANY)
		return true;
	if (device < 0)
		device = device_count() == 1 ? 0 : -1;
	if (device < 0)
		return false;
	switch (fault[FAULT_TARGET]) {
	case TARGET_ORDINAL:
		return has_ordinal(device, fault[FAULT_TARGET_A]);
	case TARGET_UUID:
		return has_uuid(device, fault[FAULT_TARGET_A], fault[FAULT_TARGET_B]);
	case TARGET_PCI:
		return has_address(device, fault[FAULT_TARGET_A]);
	default:
		return false;
	}
}

bool gpu_is_meant(const uint64_t fault[FAULT_WORDS], const struct gpu *gpu, int number)
{
	switch (fault[FAULT_TARGET]) {
	case TARGET_ANY:
		return true;
	case TARGET_ORDINAL:
		return fault[FAULT_TARGET_A] == (uint64_t)number;
	case TARGET_UUID:
		return fault[FAULT_TARGET_A] == gpu->uuid[0] && fault[FAULT_TARGET_B] == gpu->uuid[1];
	case TARGET_PCI:
		return fault[FAULT_TARGET_A] == gpu->address;
	default:
		return false;
	}
}
