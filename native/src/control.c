/* Opens and reads the control file. Nothing is opened before the first CUDA call, and nothing after it. */
#define _GNU_SOURCE
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "node.h"
#include "settings.h"

static const _Atomic uint64_t unread = 1, always = 1;
static struct control nothing; /* where there is no control file */
static const struct control *_Atomic control = &nothing;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

const _Atomic uint64_t *_Atomic gate = &unread;

uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static const struct control *mapped(int file)
{
	struct stat facts;
	const struct control *page;

	if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size != CONTROL_BYTES)
		return NULL;
	page = mmap(NULL, CONTROL_BYTES, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (atomic_load(&page->magic) == CONTROL_MAGIC)
		return page;
	munmap((void *)page, CONTROL_BYTES);
	return NULL;
}

static const struct control *from_file(void)
{
	const char *path = secure_getenv(CONTROL_VARIABLE);
	int file = open(path != NULL ? path : CONTROL_PATH, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const struct control *page;

	if (file < 0)
		return NULL;
	page = mapped(file);
	close(file);
	return page;
}

/* The two variables of the user guide arm a fault for one program. */
static const struct control *from_variables(void)
{
	const char *enabled = secure_getenv("CUDA_FAULT_INJECTION_ENABLED");
	const char *xid = secure_getenv("CUDA_XID_TYPE");

	if (enabled == NULL || enabled[0] != '1' || enabled[1] != '\0' || xid == NULL)
		return NULL;
	if (!settings_of_variable(xid, &nothing))
		return NULL;
	return &nothing;
}

static void open_once(void)
{
	int saved = errno;
	const struct control *page = from_variables();
	const struct gpu *gpus;

	if (page == NULL)
		page = from_file();
	if (page != NULL)
		node_gpus(&gpus);
	else
		page = &nothing;
	atomic_store(&control, page);
	atomic_store(&gate, &page->gate);
	errno = saved;
}

bool control_disarmed(void)
{
	pthread_once(&opened, open_once);
	return disarmed();
}

void control_keep_asking(void)
{
	atomic_store(&gate, &always);
}

/* Acquired, so that the sequence is not read again before it. */
static uint64_t word(const struct control *page, int place, int number)
{
	return atomic_load_explicit(&page->fault[place][number], memory_order_acquire);
}

static bool copied(const struct control *page, int place, uint64_t fault[FAULT_WORDS])
{
	uint64_t before = atomic_load_explicit(&page->sequence, memory_order_acquire);

	for (int number = 0; number <= FAULT_FLAGS; number++)
		fault[number] = word(page, place, number);
	return before % 2 == 0 && before == atomic_load_explicit(&page->sequence, memory_order_relaxed);
}

/* A writer that died half-way leaves an odd number: what it left is not believed. */
static bool consistent(const struct control *page, int place, uint64_t fault[FAULT_WORDS])
{
	for (int attempt = 0; attempt < 1000; attempt++)
		if (copied(page, place, fault))
			return true;
	return false;
}

/* Since when the fault is armed. A clock that began anew with a reboot counts from that on. */
static uint64_t since(const uint64_t fault[FAULT_WORDS])
{
	uint64_t now = now_ns();

	return now >= fault[FAULT_ARMED] ? now - fault[FAULT_ARMED] : now;
}

uint64_t control_id(int place)
{
	return word(atomic_load_explicit(&control, memory_order_acquire), place, FAULT_ID);
}

bool control_fault(int place, uint64_t fault[FAULT_WORDS])
{
	const struct control *page = atomic_load_explicit(&control, memory_order_acquire);
	uint64_t elapsed;

	if (word(page, place, FAULT_ID) == 0 || !consistent(page, place, fault) || fault[FAULT_ID] == 0)
		return false;
	if (fault[FAULT_DURATION] == 0 && fault[FAULT_AFTER_TIME] == 0)
		return true;
	elapsed = since(fault);
	return elapsed >= fault[FAULT_AFTER_TIME] && (fault[FAULT_DURATION] == 0 || elapsed < fault[FAULT_DURATION]);
}

bool control_still(int place, uint64_t id)
{
	uint64_t fault[FAULT_WORDS];

	return control_fault(place, fault) && fault[FAULT_ID] == id;
}
