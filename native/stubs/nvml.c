/* A libnvidia-ml.so.1 without a GPU: eight devices of the same UUIDs and addresses as the stub driver's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, TIMEOUT = 10, DEVICES = 8 };
static const uint64_t TOTAL = UINT64_C(80) << 30, USED = UINT64_C(1) << 30;
static char devices[DEVICES];

int stub_done(void);
int stub_done(void)
{
	return SUCCESS;
}

static int number_of(const void *device)
{
	return (int)((const char *)device - devices);
}

EXPORT int nvmlDeviceGetCount_v2(void *count)
{
	*(int *)count = DEVICES;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(int index, void *device)
{
	if (index < 0 || index >= DEVICES)
		return INVALID_ARGUMENT;
	*(void **)device = &devices[index];
	return SUCCESS;
}

EXPORT int nvmlDeviceGetIndex(void *device, void *index)
{
	*(int *)index = number_of(device);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(void *device, void *text, int size)
{
	snprintf(text, (size_t)size, "GPU-00000000-0000-0000-0000-%012x", number_of(device));
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByUUID(void *text, void *device)
{
	char own[64];

	for (int index = 0; index < DEVICES; index++) {
		nvmlDeviceGetUUID(&devices[index], own, sizeof(own));
		if (strcmp(own, text) == 0)
			return nvmlDeviceGetHandleByIndex_v2(index, device);
	}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, void *info)
{
	unsigned *words = (unsigned *)((char *)info + 16); /* after the legacy text: domain, bus, device */

	words[0] = 0;
	words[1] = 0x30 + (unsigned)number_of(device);
	words[2] = 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, void *memory)
{
	uint64_t *words = memory;

	(void)device;
	words[0] = TOTAL;
	words[1] = TOTAL - USED;
	words[2] = USED;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, void *memory)
{
	uint64_t *words = memory;

	(void)device;
	words[1] = TOTAL;
	words[2] = 0;
	words[3] = TOTAL - USED;
	words[4] = USED;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, void *count)
{
	(void)device, (void)type, (void)counter;
	*(unsigned long long *)count = 0;
	return SUCCESS;
}

EXPORT int nvmlEventSetWait_v2(void *set, void *event, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	(void)set, (void)event;
	nanosleep(&time, NULL);
	return TIMEOUT;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = 13000;
	return SUCCESS;
}
