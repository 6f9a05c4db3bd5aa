/* Finds the real functions. ELF: System V ABI, chapter 5; the GNU hash table as in binutils' and glibc's sources. */
#define _GNU_SOURCE
#include "real.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>

#include "calls.h"
#include "text.h"

struct symbols {
	const ElfW(Sym) *table;
	const char *names;
	const uint32_t *gnu_hash;
	const ElfW(Word) *hash;
};

/* The dynamic linker has moved these entries to where the object lies; that of some machines leaves them as they are. */
static const void *address(const struct link_map *object, ElfW(Addr) value)
{
	return (const void *)(value < object->l_addr ? object->l_addr + value : value);
}

static struct symbols symbols_of(const struct link_map *object)
{
	struct symbols found = { 0 };

	for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			found.table = address(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			found.names = address(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_GNU_HASH)
			found.gnu_hash = address(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_HASH)
			found.hash = address(object, entry->d_un.d_ptr);
	}
	return found;
}

/* The number of symbols: DT_HASH says it; in DT_GNU_HASH the last chain ends with them. */
static uint32_t count_of(const struct symbols *symbols)
{
	const uint32_t *table = symbols->gnu_hash;
	uint32_t last = 0;

	if (symbols->hash != NULL)
		return symbols->hash[1];
	if (table == NULL)
		return 0;
	const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4), *chain = buckets + table[0];

	for (uint32_t i = 0; i < table[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < table[1])
		return table[1];
	while ((chain[last - table[1]] & 1) == 0)
		last++;
	return last + 1;
}

static void *defined(const struct link_map *object, const char *name)
{
	struct symbols found = symbols_of(object), *symbols = &found;
	uint32_t count = symbols->table != NULL && symbols->names != NULL ? count_of(symbols) : 0;

	for (uint32_t i = 0; i < count; i++) {
		const ElfW(Sym) *symbol = &symbols->table[i];

		if (symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && text_is(symbols->names + symbol->st_name, name))
			return (void *)(object->l_addr + symbol->st_value);
	}
	return NULL;
}

static bool is_c_library(const char *path)
{
	const char *name = text_after(path, '/');

	name = name == NULL ? path : name;
	return text_begins(name, "libc.") || text_begins(name, "libdl.") || text_begins(name, "ld-musl");
}

/* By the list that the dynamic linker keeps for debuggers: its functions may be replaced by others, which call dlsym for the real ones. */
static void *of_c_library(const char *name, void *_Atomic *known)
{
	void *found = atomic_load_explicit(known, memory_order_acquire);

	for (const struct link_map *object = _r_debug.r_map; object != NULL && found == NULL; object = object->l_next)
		if (is_c_library(object->l_name))
			found = defined(object, name);
	atomic_store_explicit(known, found, memory_order_release);
	return found;
}

dlsym_fn real_dlsym(void)
{
	static void *_Atomic known;

	return (dlsym_fn)of_c_library("dlsym", &known);
}

dlvsym_fn real_dlvsym(void)
{
	static void *_Atomic known;

	return (dlvsym_fn)of_c_library("dlvsym", &known);
}

/* While there is one thread: the dynamic linker's list is read without its lock, which other threads' dlopen changes it under. */
__attribute__((constructor)) static void find_both(void)
{
	real_dlsym();
	real_dlvsym();
}

/* How the libraries' files begin; wheels put a digest after the name of the runtime (libcudart-8b1c2d3e.so.12). */
static const char *const FILES[LIBRARIES] = {
	[DRIVER] = "libcuda.so",
	[RUNTIME] = "libcudart",
	[NVML] = "libnvidia-ml.so",
	[NCCL] = "libnccl.so",
};
static atomic_bool seen[LIBRARIES];

struct search {
	enum library library;
	const char *symbol;
	void *found;
};

static bool is_file_of(enum library library, const char *path)
{
	const char *name = text_after(path, '/');

	return text_begins(name == NULL ? path : name, FILES[library]);
}

bool real_is_from(enum library library, const void *function)
{
	Dl_info info;

	return dladdr(function, &info) != 0 && info.dli_fname != NULL && is_file_of(library, info.dli_fname);
}

static int searched(struct dl_phdr_info *info, size_t size, void *given)
{
	struct search *search = given;
	struct link_map object = { .l_addr = info->dlpi_addr };

	(void)size;
	if (!is_file_of(search->library, info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.l_ld = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (object.l_ld != NULL)
		search->found = defined(&object, search->symbol);
	return search->found != NULL;
}

/*
 * Among the libraries that the program has opened for itself alone (RTLD_LOCAL), which RTLD_NEXT does not reach. Not by dlopen with
 * RTLD_NOLOAD: that looks through the folders for a file of a name that is not loaded.
 */
static void *in_loaded(enum library library, const char *symbol)
{
	struct search search = { library, symbol, NULL };

	dl_iterate_phdr(searched, &search);
	return search.found;
}

void *real_named(enum library library, const char *symbol)
{
	int saved = errno;
	void *found = NULL;

	if (real_dlsym() != NULL) {
		found = real_dlsym()(RTLD_NEXT, symbol);
		if (found == NULL)
			found = in_loaded(library, symbol);
	}
	dlerror(); /* the program's next dlerror() is not about our search */
	errno = saved;
	return found;
}

static const struct table *const TABLES[LIBRARIES] = {
	[DRIVER] = &driver_table,
	[RUNTIME] = &runtime_table,
	[NVML] = &nvml_table,
	[NCCL] = &nccl_table,
};
static void *_Atomic homes[LIBRARIES]; /* where the library begins of which the functions are known */
static _Atomic unsigned moves;

static void *home_of(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) == 0 ? NULL : info.dli_fbase;
}

/* A program may close a library and open it again, as those do that only look whether it is there: it is elsewhere then. */
static void forget_closed(enum library library, const void *found)
{
	void *home = home_of(found), *known = atomic_load(&homes[library]);

	if (home == known || (known != NULL && home_of(known) == known))
		return;
	for (size_t i = 0; known != NULL && i < TABLES[library]->count; i++)
		atomic_store(&TABLES[library]->slots[i].real, NULL);
	atomic_store(&homes[library], home);
	atomic_fetch_add(&moves, known != NULL);
}

void real_is(struct slot *slot, void *found)
{
	void *none = NULL;

	if (found == slot->replacement || found == atomic_load(&slot->real))
		return;
	forget_closed(slot->library, found);
	atomic_compare_exchange_strong(&slot->real, &none, found);
	atomic_store_explicit(&seen[slot->library], true, memory_order_relaxed);
}

void *real_kept(enum library library, const char *symbol, struct kept *kept)
{
	unsigned now = atomic_load_explicit(&moves, memory_order_acquire);
	unsigned then = atomic_load_explicit(&kept->moves, memory_order_acquire);
	void *found = atomic_load_explicit(&kept->function, memory_order_acquire);

	if (found != NULL && then == now)
		return found;
	found = real_named(library, symbol);
	atomic_store_explicit(&kept->function, found, memory_order_release);
	atomic_store_explicit(&kept->moves, now, memory_order_release);
	return found;
}

void *real_of(struct slot *slot)
{
	void *found = atomic_load_explicit(&slot->real, memory_order_acquire);

	if (found == NULL && (found = real_named(slot->library, slot->symbol)) != NULL)
		real_is(slot, found);
	return atomic_load_explicit(&slot->real, memory_order_acquire);
}

bool real_seen(enum library library)
{
	return atomic_load_explicit(&seen[library], memory_order_relaxed);
}
