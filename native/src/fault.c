/* Decides whether a call fails, blocks or is late. Everything here runs only while a fault is armed or a context of the process is dead. */
#define _GNU_SOURCE
#include "fault.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "device.h"
#include "node.h"
#include "real.h"

/* What the process remembers of the fault in a place. */
struct memory {
	_Atomic uint64_t id;
	_Atomic uint64_t calls;
	_Atomic uint64_t before;       /* devices that the process used when it first met the fault */
	_Atomic uint64_t asked, meant; /* by device: whether it was asked, and whether the fault is one of it */
};

static const uint64_t BEING_MET = UINT64_C(1) << 63; /* the id, with that of the process, while a thread fills in the rest */

static struct memory memories[CONTROL_FAULTS];
static _Atomic uint64_t used;           /* devices on which a context was made */
static _Atomic int dead[MOST_DEVICES];  /* the error of a dead context, by device */
static atomic_bool any_dead;
static _Thread_local int depth __attribute__((tls_model("initial-exec"))); /* > 0 within a call of the runtime */

static uint64_t bit(int device)
{
	return UINT64_C(1) << (device & 63);
}

/* A context that this thread has, but that was not made by a call of ours, counts as well: the runtime may have ways of its own. */
static uint64_t devices_in_use(void)
{
	int device = device_current();

	return atomic_load(&used) | (device < 0 ? 0 : bit(device));
}

/* A process that was forked meanwhile has the mark of a thread that it does not have. */
static bool is_being_met(uint64_t id)
{
	return id & BEING_MET && id == (BEING_MET | (uint64_t)getpid());
}

/* NULL while another thread meets the fault of this place for the first time: it came a moment later for this one. */
static struct memory *memory_of(int place, const uint64_t fault[FAULT_WORDS])
{
	struct memory *memory = &memories[place];
	uint64_t known = atomic_load(&memory->id);

	if (known == fault[FAULT_ID])
		return memory;
	if (is_being_met(known) || !atomic_compare_exchange_strong(&memory->id, &known, BEING_MET | (uint64_t)getpid()))
		return NULL;
	atomic_store(&memory->calls, 0);
	atomic_store(&memory->before, devices_in_use());
	atomic_store(&memory->asked, 0);
	atomic_store(&memory->meant, 0);
	atomic_store(&memory->id, fault[FAULT_ID]);
	return memory;
}

/* The same for one that has begun and is not over; NULL for any other. */
static struct memory *memory_at(int place, uint64_t fault[FAULT_WORDS])
{
	return control_fault(place, fault) ? memory_of(place, fault) : NULL;
}

static bool meant(struct memory *memory, const uint64_t fault[FAULT_WORDS], int device)
{
	bool answer;

	if (fault[FAULT_TARGET] == TARGET_ANY)
		return true;
	if (device >= 0 && (atomic_load(&memory->asked) & bit(device)))
		return (atomic_load(&memory->meant) & bit(device)) != 0;
	answer = device_is_meant(fault, device);
	if (device >= 0) {
		if (answer)
			atomic_fetch_or(&memory->meant, bit(device));
		atomic_fetch_or(&memory->asked, bit(device));
	}
	return answer;
}

/* Whether the process used the device when the fault came; -1: any. */
static bool was_running(struct memory *memory, int device)
{
	uint64_t before = atomic_load(&memory->before);

	return device < 0 ? before != 0 : (before & bit(device)) != 0;
}

/* splitmix64 (Vigna, public domain): the same seed gives every candidate the same calls. */
static uint64_t mixed(uint64_t value)
{
	value += UINT64_C(0x9e3779b97f4a7c15);
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* Faults by count or by chance begin while a program works; the calls inside a call of the runtime are part of that one. */
static bool due(struct memory *memory, const uint64_t fault[FAULT_WORDS])
{
	uint64_t number;

	if (fault[FAULT_AFTER_CALLS] == 0 && fault[FAULT_CHANCE] == 0)
		return true;
	if (depth > 0)
		return false;
	number = atomic_fetch_add(&memory->calls, 1);
	if (number < fault[FAULT_AFTER_CALLS])
		return false;
	return fault[FAULT_CHANCE] == 0 || mixed(fault[FAULT_SEED] ^ mixed(number)) >> 32 < fault[FAULT_CHANCE];
}

static void sleep_for(uint64_t nanoseconds)
{
	struct timespec time = { (time_t)(nanoseconds / UINT64_C(1000000000)), (long)(nanoseconds % UINT64_C(1000000000)) };

	while (nanosleep(&time, &time) != 0 && errno == EINTR)
		;
}

bool fault_blocks(int place, uint64_t id, uint64_t nanoseconds)
{
	const uint64_t step = 20000000;
	uint64_t now = now_ns(), end = now + nanoseconds;
	bool still;

	for (; (still = control_still(place, id)) && (nanoseconds == 0 || now < end); now = now_ns())
		sleep_for(nanoseconds != 0 && end - now < step ? end - now : step);
	return still;
}

static bool by_chance_or_count(const uint64_t fault[FAULT_WORDS])
{
	return fault[FAULT_CHANCE] != 0 || fault[FAULT_AFTER_CALLS] != 0;
}

/* A device that is hidden without an error of its own is one that is not there. */
static int error_of_new(const uint64_t fault[FAULT_WORDS])
{
	return fault[FAULT_NEW] == 0 && fault[FAULT_FLAGS] & FLAG_HIDE ? ERROR_NO_DEVICE : (int)fault[FAULT_NEW];
}

/* The error of a call of this kind on a device of the fault, 0 for none; `kills`: of one that leaves a context dead. */
static int error_of(struct memory *memory, const uint64_t fault[FAULT_WORDS], enum kind kind, int device, bool *kills)
{
	*kills = false;
	if (kind == KIND_START || kind == KIND_RESET || kind == KIND_COLLECTIVE || !due(memory, fault))
		return 0;
	if (was_running(memory, device) || by_chance_or_count(fault)) {
		*kills = (fault[FAULT_FLAGS] & FLAG_STICKY) != 0;
		return (int)fault[FAULT_RUNNING];
	}
	return kind == KIND_CONTEXT || fault[FAULT_FLAGS] & FLAG_REFUSE ? error_of_new(fault) : 0;
}

static void dies(int device, int error)
{
	int alive = 0;

	if (device < 0)
		device = 0;
	if (device < MOST_DEVICES && atomic_compare_exchange_strong(&dead[device], &alive, error)) {
		atomic_store(&any_dead, true);
		control_keep_asking();
	}
}

static int death_of(int device)
{
	if (!atomic_load_explicit(&any_dead, memory_order_relaxed))
		return 0;
	return atomic_load(&dead[device < 0 || device >= MOST_DEVICES ? 0 : device]);
}

int fault_of_dead_context(void)
{
	return death_of(device_current());
}

static bool too_much(const uint64_t fault[FAULT_WORDS], uint64_t bytes)
{
	static struct kept known;
	int (*call)(size_t *, size_t *) = (int (*)(size_t *, size_t *))real_kept(DRIVER, "cuMemGetInfo_v2", &known);
	size_t free_bytes, total;

	if (call == NULL || call(&free_bytes, &total) != 0)
		return bytes > fault[FAULT_MEMORY];
	return bytes > fault[FAULT_MEMORY] || total - free_bytes > fault[FAULT_MEMORY] - bytes;
}

/* What else a fault does to a call: less memory, later, or not before it is over. */
static int slowed(int place, const uint64_t fault[FAULT_WORDS], enum kind kind, uint64_t bytes)
{
	if (fault[FAULT_MEMORY] != 0 && kind == KIND_ALLOCATE && bytes != 0 && too_much(fault, bytes))
		return ERROR_OUT_OF_MEMORY;
	if (fault[FAULT_LATENCY] != 0 && depth == 0 && (kind == KIND_LAUNCH || kind == KIND_WAIT))
		sleep_for(fault[FAULT_LATENCY]);
	if (fault[FAULT_FLAGS] & FLAG_NCCL_HANG) {
		if (kind == KIND_WAIT)
			fault_blocks(place, fault[FAULT_ID], 0);
		if (kind == KIND_QUERY)
			return ERROR_NOT_READY;
	}
	return PASS;
}

/* Nothing is armed in the place, or a fault that is known to be another device's: an id never comes to mean another fault. */
static bool is_elsewhere(int place, int device)
{
	struct memory *memory = &memories[place];
	uint64_t id = control_id(place);

	if (id == 0 || device < 0 || id != atomic_load(&memory->id))
		return id == 0;
	return (atomic_load(&memory->asked) & ~atomic_load(&memory->meant) & bit(device)) != 0;
}

static int by_place(int place, enum kind kind, int device, uint64_t bytes)
{
	uint64_t fault[FAULT_WORDS];
	struct memory *memory = memory_at(place, fault);
	bool kills;
	int error;

	if (memory == NULL || !meant(memory, fault, device))
		return PASS;
	error = error_of(memory, fault, kind, device, &kills);
	if (error == 0)
		return slowed(place, fault, kind, bytes);
	if (fault[FAULT_HANG] != 0 && !fault_blocks(place, fault[FAULT_ID], fault[FAULT_HANG]))
		return PASS;
	if (kills)
		dies(device, error);
	return error;
}

static int decided(enum kind kind, int device, uint64_t bytes)
{
	int saved = errno, error, answer = PASS;

	if (device < 0)
		device = device_current();
	error = kind == KIND_START || kind == KIND_RESET ? 0 : death_of(device);
	if (error != 0)
		return error;
	for (int place = 0; place < CONTROL_FAULTS && answer == PASS; place++)
		if (!is_elsewhere(place, device))
			answer = by_place(place, kind, device, bytes);
	errno = saved;
	return answer;
}

int fault_in_driver(enum kind kind, int device, uint64_t bytes)
{
	return control_disarmed() ? PASS : decided(kind, device, bytes);
}

/* A process without a context learns of the fault where the runtime starts the driver, and there alone. */
int fault_in_runtime(enum kind kind)
{
	if (control_disarmed() || kind == KIND_START || atomic_load(&used) == 0)
		return PASS;
	return decided(kind, -1, 0);
}

void runtime_begins(void)
{
	depth++;
}

void runtime_ends(void)
{
	depth--;
}

/* The first armed fault for which `wanted` gives an answer. */
static int first(int (*wanted)(struct memory *memory, const uint64_t fault[FAULT_WORDS]))
{
	uint64_t fault[FAULT_WORDS];
	struct memory *memory;
	int saved = errno, answer = PASS;

	for (int place = 0; place < CONTROL_FAULTS && answer == PASS; place++)
		if ((memory = memory_at(place, fault)) != NULL)
			answer = wanted(memory, fault);
	errno = saved;
	return answer;
}

static bool late(struct memory *memory, const uint64_t fault[FAULT_WORDS])
{
	return !by_chance_or_count(fault) && error_of_new(fault) != 0 && !was_running(memory, -1);
}

static int without_driver(struct memory *memory, const uint64_t fault[FAULT_WORDS])
{
	return late(memory, fault) ? error_of_new(fault) : PASS;
}

int fault_without_driver(void)
{
	return control_disarmed() || real_seen(DRIVER) ? PASS : first(without_driver);
}

/* The fault of a place if the process, which came after it, does not find its device. */
static bool hides(int place, uint64_t fault[FAULT_WORDS])
{
	struct memory *memory = memory_at(place, fault);

	return memory != NULL && fault[FAULT_FLAGS] & FLAG_HIDE && late(memory, fault);
}

static bool is_hidden(const struct gpu *gpu, int number)
{
	uint64_t fault[FAULT_WORDS];

	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (hides(place, fault) && gpu_is_meant(fault, gpu, number))
			return true;
	return false;
}

static int in_start(struct memory *memory, const uint64_t fault[FAULT_WORDS])
{
	if (!(fault[FAULT_FLAGS] & FLAG_REFUSE) && !(fault[FAULT_FLAGS] & FLAG_HIDE && fault[FAULT_TARGET] == TARGET_ANY))
		return PASS;
	return late(memory, fault) ? error_of_new(fault) : PASS;
}

int fault_in_count(void)
{
	return control_disarmed() ? PASS : first(in_start);
}

int fault_in_start(char *visible, size_t size)
{
	uint64_t fault[FAULT_WORDS];
	int error;

	visible[0] = '\0';
	if (control_disarmed())
		return PASS;
	if ((error = first(in_start)) != PASS)
		return error;
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (hides(place, fault))
			return node_visible(visible, size, is_hidden) == 0 ? error_of_new(fault) : PASS;
	return PASS;
}

uint64_t fault_memory(int device)
{
	uint64_t fault[FAULT_WORDS], least = 0;
	struct memory *memory;

	if (control_disarmed())
		return 0;
	if (device < 0)
		device = device_current();
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if ((memory = memory_at(place, fault)) != NULL && fault[FAULT_MEMORY] != 0 && meant(memory, fault, device))
			least = least == 0 || fault[FAULT_MEMORY] < least ? fault[FAULT_MEMORY] : least;
	return least;
}

void context_was_made(int device)
{
	atomic_fetch_or(&used, bit(device < 0 ? 0 : device));
}

int fault_in_nccl(bool *blocks)
{
	uint64_t fault[FAULT_WORDS];
	struct memory *memory;
	int error = 0;

	*blocks = false;
	if (control_disarmed())
		return 0;
	for (int place = 0; place < CONTROL_FAULTS; place++) {
		if ((memory = memory_at(place, fault)) == NULL || !meant(memory, fault, device_current()))
			continue;
		*blocks = *blocks || (fault[FAULT_FLAGS] & FLAG_NCCL_HANG);
		error = error == 0 ? (int)fault[FAULT_NCCL] : error;
	}
	return error;
}

int fault_in_nccl_start(void)
{
	const uint64_t step = 20000000;
	int saved = errno, error;
	bool blocks;

	while ((error = fault_in_nccl(&blocks)) == 0 && blocks)
		sleep_for(step);
	errno = saved;
	return error;
}
