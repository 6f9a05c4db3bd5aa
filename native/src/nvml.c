/*
 * The calls of NVML (libnvidia-ml.so.1), as nvidia-smi, pynvml and DCGM make them. NVML's device numbers are the node's: unlike CUDA it
 * does not know CUDA_VISIBLE_DEVICES. Structures and numbers: nvml.h.
 */
#include <errno.h>
#include <string.h>

#include "calls.h"
#include "device.h"

#define TABLE "nvml.def"
#define LIBRARY NVML
#define NAME nvml_table
#include "slots.inc"

enum {
	NVML_SUCCESS = 0,
	NVML_NOT_FOUND = 6,
	NVML_TIMEOUT = 10,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_GPU_IS_LOST = 15,
};
enum { UNCORRECTED = 1, DEVICE_MEMORY = 2, EVENT_XID = 8, WATCHED = 64, UUID_BYTES = 96 };

struct pci_info {
	char legacy[16];
	unsigned domain, bus, device, identity, subsystem;
	char text[32];
};

struct event {
	void *device;
	unsigned long long type, data;
	unsigned instance, compute_instance;
};

/* Who waits for the Xids of which device, and of which faults that was told. */
static struct watched {
	void *_Atomic set;
	void *_Atomic device;
	_Atomic uint64_t told[CONTROL_FAULTS];
} watched[WATCHED];

static bool has_ordinal(void *device, uint64_t ordinal)
{
	int(*real)(void *, void *) = REAL(nvmlDeviceGetIndex, (void *, void *));
	unsigned index;

	return real != NULL && real(device, &index) == NVML_SUCCESS && index == ordinal;
}

static bool has_uuid(void *device, uint64_t first, uint64_t second)
{
	int(*real)(void *, void *, int) = REAL(nvmlDeviceGetUUID, (void *, void *, int));
	char text[UUID_BYTES] = { 0 };
	uint64_t own[2];

	return real != NULL && real(device, text, sizeof(text)) == NVML_SUCCESS && uuid_of(text, &own[0], &own[1]) &&
	       own[0] == first && own[1] == second;
}

static bool has_address(void *device, uint64_t address)
{
	int(*real)(void *, void *) = REAL(nvmlDeviceGetPciInfo_v3, (void *, void *));
	struct pci_info info = { .domain = 0 };

	return real != NULL && real(device, &info) == NVML_SUCCESS &&
	       ((uint64_t)info.domain << 16 | (uint64_t)info.bus << 8 | info.device) == address;
}

static bool is_meant(const uint64_t fault[FAULT_WORDS], void *device)
{
	switch (fault[FAULT_TARGET]) {
	case TARGET_ANY:
		return true;
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

/* The fault of a place, if it is one of this device. */
static bool fault_of(int place, uint64_t fault[FAULT_WORDS], void *device)
{
	return control_fault(place, fault) && is_meant(fault, device);
}

static bool fails(int place, uint64_t fault[FAULT_WORDS], void *device, bool gone)
{
	if (!fault_of(place, fault, device) || fault[FAULT_NVML] == 0 || fault[FAULT_FLAGS] & FLAG_REFUSE)
		return false;
	if (gone && fault[FAULT_NVML] != NVML_GPU_IS_LOST)
		return false;
	return fault[FAULT_HANG] == 0 || fault_blocks(place, fault[FAULT_ID], fault[FAULT_HANG]);
}

/* The error of the calls for a device, 0 for none; `gone`: only of those that fail because there is no device. */
static int error_of(void *device, bool gone)
{
	uint64_t fault[FAULT_WORDS];
	int saved = errno, error = 0;

	if (control_disarmed())
		return 0;
	for (int place = 0; place < CONTROL_FAULTS && error == 0; place++)
		if (fails(place, fault, device, gone))
			error = (int)fault[FAULT_NVML];
	errno = saved;
	return error;
}

enum { ONLY_LOST = true, ONLY_RESET = false };

#define CALL(symbol, base, version, kind, extra, params, names)           \
	EXPORT int symbol params                                          \
	{                                                                 \
		int(*real) params = KNOWN(slots[AT(symbol)], params);     \
		int error;                                                \
                                                                          \
		if (LIKELY(disarmed() && real != NULL))                   \
			return real names;                                \
		if ((error = error_of(a, ONLY_##kind)) != 0)              \
			return error;                                     \
		real = FOUND(slots[AT(symbol)], params);                  \
		return real == NULL ? NVML_LIBRARY_NOT_FOUND : real names; \
	}
#define OWN(symbol, base, version, kind, extra, params, names)
#include "nvml.def"
#undef CALL
#undef OWN

/* What nvmlInit gives where the driver is not the library's: the error of a fault that refuses. */
static int refused(void)
{
	uint64_t fault[FAULT_WORDS];

	if (control_disarmed())
		return 0;
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (control_fault(place, fault) && fault[FAULT_FLAGS] & FLAG_REFUSE && fault[FAULT_NVML] != 0)
			return (int)fault[FAULT_NVML];
	return 0;
}

static int started(int(*real)(int), int flags)
{
	int error = refused();

	if (error != 0)
		return error;
	return real == NULL ? NVML_LIBRARY_NOT_FOUND : real(flags);
}

EXPORT int nvmlInit(void)
{
	return started((int(*)(int))real_of(&slots[AT(nvmlInit)]), 0);
}

EXPORT int nvmlInit_v2(void)
{
	return started((int(*)(int))real_of(&slots[AT(nvmlInit_v2)]), 0);
}

EXPORT int nvmlInitWithFlags(int flags)
{
	return started(REAL(nvmlInitWithFlags, (int)), flags);
}

/* A device that is gone from the bus stays in NVML's list until the driver is loaded anew; one that is hidden without an error does not. */
static bool is_hidden(void *device)
{
	uint64_t fault[FAULT_WORDS];

	if (control_disarmed())
		return false;
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (fault_of(place, fault, device) && fault[FAULT_FLAGS] & FLAG_HIDE && fault[FAULT_NVML] == 0)
			return true;
	return false;
}

static bool hidden_at(int index)
{
	int(*real)(int, void *) = REAL(nvmlDeviceGetHandleByIndex_v2, (int, void *));
	void *device;

	return real != NULL && real(index, &device) == NVML_SUCCESS && is_hidden(device);
}

static int counted(int(*real)(void *), int *count)
{
	int result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(count), all;

	if (result != NVML_SUCCESS || count == NULL || control_disarmed())
		return result;
	all = *count;
	for (int index = 0; index < all; index++)
		*count -= hidden_at(index);
	return result;
}

EXPORT int nvmlDeviceGetCount(void *count)
{
	return counted(REAL(nvmlDeviceGetCount, (void *)), count);
}

EXPORT int nvmlDeviceGetCount_v2(void *count)
{
	return counted(REAL(nvmlDeviceGetCount_v2, (void *)), count);
}

/* A handle that NVML gave, or the error of its device instead. */
static int handed_out(int result, void *device)
{
	int error;

	if (result != NVML_SUCCESS || device == NULL || control_disarmed())
		return result;
	if (is_hidden(*(void **)device))
		return NVML_NOT_FOUND;
	error = error_of(*(void **)device, true);
	return error == 0 ? result : error;
}

static int by_index(int(*real)(int, void *), int index, void *device)
{
	int at = 0;

	if (real == NULL)
		return NVML_LIBRARY_NOT_FOUND;
	for (int skipped = index; !control_disarmed() && at < MOST_DEVICES; at++)
		if (!hidden_at(at) && skipped-- == 0)
			return handed_out(real(at, device), device);
	return handed_out(real(index, device), device);
}

EXPORT int nvmlDeviceGetHandleByIndex(int index, void *device)
{
	return by_index(REAL(nvmlDeviceGetHandleByIndex, (int, void *)), index, device);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(int index, void *device)
{
	return by_index(REAL(nvmlDeviceGetHandleByIndex_v2, (int, void *)), index, device);
}

#define BY_NAME(symbol)                                                                                             \
	EXPORT int symbol(void *name, void *device)                                                                 \
	{                                                                                                           \
		int(*real)(void *, void *) = REAL(symbol, (void *, void *));                                        \
                                                                                                                    \
		return real == NULL ? NVML_LIBRARY_NOT_FOUND : handed_out(real(name, device), device);              \
	}
BY_NAME(nvmlDeviceGetHandleByUUID)
BY_NAME(nvmlDeviceGetHandleBySerial)
BY_NAME(nvmlDeviceGetHandleByPciBusId)
BY_NAME(nvmlDeviceGetHandleByPciBusId_v2)

/* The least memory that a fault leaves the device, or 0. */
static uint64_t memory_of(void *device)
{
	uint64_t fault[FAULT_WORDS], least = 0;

	if (control_disarmed())
		return 0;
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (fault_of(place, fault, device) && fault[FAULT_MEMORY] != 0 && (least == 0 || fault[FAULT_MEMORY] < least))
			least = fault[FAULT_MEMORY];
	return least;
}

static void capped(uint64_t least, uint64_t *total, uint64_t *left, uint64_t used)
{
	if (least == 0 || least >= *total)
		return;
	*total = least;
	*left = used < least ? least - used : 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, void *memory)
{
	int(*real)(void *, void *) = REAL(nvmlDeviceGetMemoryInfo, (void *, void *));
	int error = error_of(device, false), result;
	uint64_t *words = memory; /* total, free, used */

	if (error != 0)
		return error;
	result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, memory);
	if (result == NVML_SUCCESS && words != NULL)
		capped(memory_of(device), &words[0], &words[1], words[2]);
	return result;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, void *memory)
{
	int(*real)(void *, void *) = REAL(nvmlDeviceGetMemoryInfo_v2, (void *, void *));
	int error = error_of(device, false), result;
	uint64_t *words = memory; /* version, total, reserved, free, used */

	if (error != 0)
		return error;
	result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, memory);
	if (result == NVML_SUCCESS && words != NULL)
		capped(memory_of(device), &words[1], &words[3], words[2] + words[4]);
	return result;
}

/* The uncorrectable errors that faults add. */
static uint64_t ecc_errors(void *device)
{
	uint64_t fault[FAULT_WORDS], sum = 0;

	if (control_disarmed())
		return 0;
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (fault_of(place, fault, device))
			sum += fault[FAULT_ECC];
	return sum;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, void *count)
{
	int(*real)(void *, int, int, void *) = REAL(nvmlDeviceGetTotalEccErrors, (void *, int, int, void *));
	int error = error_of(device, false), result;

	if (error != 0)
		return error;
	result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, type, counter, count);
	if (result == NVML_SUCCESS && count != NULL && type == UNCORRECTED)
		*(unsigned long long *)count += ecc_errors(device);
	return result;
}

EXPORT int nvmlDeviceGetMemoryErrorCounter(void *device, int type, int counter, int location, void *count)
{
	int(*real)(void *, int, int, int, void *) = REAL(nvmlDeviceGetMemoryErrorCounter, (void *, int, int, int, void *));
	int error = error_of(device, false), result;

	if (error != 0)
		return error;
	result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, type, counter, location, count);
	if (result == NVML_SUCCESS && count != NULL && type == UNCORRECTED && location == DEVICE_MEMORY)
		*(unsigned long long *)count += ecc_errors(device);
	return result;
}

/* nvmlFieldValue_t */
struct field {
	unsigned field, scope;
	long long time, latency;
	int type, result;
	uint64_t value;
};

/* NVML_FI_DEV_ECC_DBE_...: volatile and aggregate, of all and of the device's memory; DCGM reads them. */
static bool counts_ecc(const struct field *field)
{
	return field->field == 4 || field->field == 6 || field->field == 12 || field->field == 23;
}

EXPORT int nvmlDeviceGetFieldValues(void *device, int count, void *values)
{
	int(*real)(void *, int, void *) = REAL(nvmlDeviceGetFieldValues, (void *, int, void *));
	int error = error_of(device, false), result;
	struct field *fields = values;

	if (error != 0)
		return error;
	result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, count, values);
	if (result != NVML_SUCCESS || fields == NULL || disarmed())
		return result;
	for (int i = 0; i < count; i++)
		if (counts_ecc(&fields[i]) && fields[i].result == NVML_SUCCESS)
			fields[i].value += ecc_errors(device);
	return result;
}

static bool is_due(int place, uint64_t fault[FAULT_WORDS], void *device)
{
	return fault_of(place, fault, device) && fault[FAULT_XID] != 0;
}

/* What has happened before is no event. */
static void watch(void *set, void *device)
{
	uint64_t fault[FAULT_WORDS];

	for (struct watched *one = watched; one < watched + WATCHED; one++) {
		void *none = NULL;

		if (!atomic_compare_exchange_strong(&one->set, &none, set))
			continue;
		for (int place = 0; place < CONTROL_FAULTS; place++)
			atomic_store(&one->told[place], !control_disarmed() && is_due(place, fault, device) ? fault[FAULT_ID] : 0);
		atomic_store(&one->device, device);
		return;
	}
}

EXPORT int nvmlDeviceRegisterEvents(void *device, uint64_t types, void *set)
{
	int(*real)(void *, uint64_t, void *) = REAL(nvmlDeviceRegisterEvents, (void *, uint64_t, void *));
	int result = real == NULL ? NVML_LIBRARY_NOT_FOUND : real(device, types, set);

	if (result == NVML_SUCCESS && types & EVENT_XID)
		watch(set, device);
	return result;
}

EXPORT int nvmlEventSetFree(void *set)
{
	int(*real)(void *) = REAL(nvmlEventSetFree, (void *));

	for (struct watched *one = watched; one < watched + WATCHED; one++)
		if (set != NULL && atomic_load(&one->set) == set) {
			atomic_store(&one->device, NULL);
			atomic_store(&one->set, NULL);
		}
	return real == NULL ? NVML_LIBRARY_NOT_FOUND : real(set);
}

/* The event of a fault in a place, if this device's is not told of yet. */
static bool event_at(int place, struct watched *one, struct event *event)
{
	void *device = atomic_load(&one->device);
	uint64_t fault[FAULT_WORDS], known = atomic_load(&one->told[place]);

	if (device == NULL || !is_due(place, fault, device) || known == fault[FAULT_ID])
		return false;
	*event = (struct event){ device, EVENT_XID, fault[FAULT_XID], 0xffffffff, 0xffffffff };
	return atomic_compare_exchange_strong(&one->told[place], &known, fault[FAULT_ID]);
}

static bool event_for(void *set, struct event *event)
{
	for (int place = 0; !control_disarmed() && place < CONTROL_FAULTS; place++)
		for (struct watched *one = watched; one < watched + WATCHED; one++)
			if (atomic_load(&one->set) == set && event_at(place, one, event))
				return true;
	return false;
}

/* Waits in pieces, since NVML cannot be told that there is something to see. */
static int waited(int(*real)(void *, void *, int), void *set, struct event *event, unsigned milliseconds)
{
	unsigned piece = 100, left = milliseconds;

	if (real == NULL)
		return NVML_LIBRARY_NOT_FOUND;
	for (;;) {
		int result;

		if (event != NULL && event_for(set, event))
			return NVML_SUCCESS;
		result = real(set, event, (int)(left < piece ? left : piece));
		if (result != NVML_TIMEOUT || left <= piece)
			return result;
		left -= piece;
	}
}

EXPORT int nvmlEventSetWait(void *set, void *event, int milliseconds)
{
	return waited(REAL(nvmlEventSetWait, (void *, void *, int)), set, event, (unsigned)milliseconds);
}

EXPORT int nvmlEventSetWait_v2(void *set, void *event, int milliseconds)
{
	return waited(REAL(nvmlEventSetWait_v2, (void *, void *, int)), set, event, (unsigned)milliseconds);
}
