/* The ways by which a program comes to a function without naming it to the linker: dlsym, dlvsym, and the driver's cuGetProcAddress. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "calls.h"
#include "text.h"

static const struct table *table_of(const char *symbol)
{
	if (text_begins(symbol, "cuda"))
		return &runtime_table;
	if (text_begins(symbol, "cu"))
		return &driver_table;
	if (text_begins(symbol, "nvml"))
		return &nvml_table;
	return text_begins(symbol, "nccl") ? &nccl_table : NULL;
}

static struct slot *slot_of(const char *symbol)
{
	const struct table *table = table_of(symbol);

	for (size_t i = 0; table != NULL && i < table->count; i++)
		if (text_is(table->slots[i].symbol, symbol))
			return &table->slots[i];
	return NULL;
}

/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
enum { PER_THREAD = 2 };

static bool is_threaded(const char *symbol)
{
	const char *end = text_after(symbol, '_');

	return end != NULL && (text_is(end, "ptsz") || text_is(end, "ptds"));
}

/* The newest version of a call that is not newer than the one asked for; of two, the one for the thread's own default stream. */
struct slot *slot_of_version(const char *symbol, int version, uint64_t flags);
struct slot *slot_of_version(const char *symbol, int version, uint64_t flags)
{
	struct slot *best = NULL;

	for (size_t i = 0; i < driver_table.count; i++) {
		struct slot *slot = &driver_table.slots[i];

		if (!text_is(slot->base, symbol) || slot->version > version)
			continue;
		if (is_threaded(slot->symbol) && !(flags & PER_THREAD))
			continue;
		if (best == NULL || slot->version > best->version || (slot->version == best->version && is_threaded(slot->symbol)))
			best = slot;
	}
	return best;
}

/* There is one driver in a process, but what it exports need not be what its cuGetProcAddress gives. */
static bool is_from_driver(const struct slot *slot, const void *found)
{
	return slot->library == DRIVER && real_is_from(DRIVER, found);
}

/* NULL, with an error that names the C library: that of our own search names this library, and programs print it. */
static void *missing(const char *symbol)
{
	void *handle = NULL;
	Dl_info info;

	if (dladdr((void *)real_dlsym(), &info) != 0)
		handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD); /* closing it would end the error */
	return handle == NULL ? NULL : real_dlsym()(handle, symbol);
}

/* What the object of an address has by itself or is linked with. It may be one that nobody has opened, which has no handle yet. */
static void *in_scope_of(const void *address, const char *symbol)
{
	void *handle, *found;
	Dl_info info;

	if (dladdr(address, &info) == 0 || (handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) == NULL)
		return NULL;
	found = real_dlsym()(handle, symbol);
	dlclose(handle);
	return found;
}

/* Ours for the one that was found, as long as there is only one of that name in the process. Ours alone is as good as none. */
static void *exchanged(struct slot *slot, void *found)
{
	if (found == slot->replacement && (found = real_dlsym()(RTLD_NEXT, slot->symbol)) == NULL)
		return missing(slot->symbol);
	if (found == NULL)
		return NULL;
	real_is(slot, found);
	return atomic_load(&slot->real) == found || is_from_driver(slot, found) ? slot->replacement : found;
}

/* RTLD_DEFAULT; for a caller that was opened with RTLD_LOCAL that is also what it is linked with. */
static void *by_default(struct slot *slot, void *caller)
{
	void *found = real_dlsym()(RTLD_NEXT, slot->symbol);

	if (found == NULL)
		found = in_scope_of(caller, slot->symbol);
	return found == NULL ? missing(slot->symbol) : exchanged(slot, found);
}

/*
 * RTLD_NEXT is about the place of the caller, which only a call that hands its return address on preserves: the compiler makes a jump of
 * it. With RTLD_DEFAULT the first of that name would be ours, whether or not there is a real one.
 */
EXPORT void *dlsym(void *restrict handle, const char *restrict symbol)
{
	struct slot *slot = handle == RTLD_NEXT ? NULL : slot_of(symbol);
	dlsym_fn real = real_dlsym();

	if (real == NULL)
		return NULL;
	if (slot == NULL)
		return real(handle, symbol);
	if (handle == RTLD_DEFAULT)
		return by_default(slot, __builtin_return_address(0));
	return exchanged(slot, real(handle, symbol));
}

EXPORT void *dlvsym(void *restrict handle, const char *restrict symbol, const char *restrict version)
{
	struct slot *slot = handle == RTLD_NEXT ? NULL : slot_of(symbol);
	dlvsym_fn real = real_dlvsym();

	if (real == NULL)
		return NULL;
	if (slot == NULL)
		return real(handle, symbol, version);
	return exchanged(slot, real(handle, symbol, version));
}
