/* The functions behind the replaced ones. */
#ifndef REAL_H
#define REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum library { DRIVER, RUNTIME, NVML, NCCL, LIBRARIES };

/* A replaced call. `base`, `version`: by which cuGetProcAddress knows it. */
struct slot {
	const char *symbol, *base;
	int version;
	enum library library;
	void *replacement;
	void *_Atomic real;
};

typedef void *(*dlsym_fn)(void *handle, const char *symbol);
typedef void *(*dlvsym_fn)(void *handle, const char *symbol, const char *version);

/* The C library's own, found in its symbol table, since this library has functions of their names. NULL if there is none. */
dlsym_fn real_dlsym(void);
dlvsym_fn real_dlvsym(void);

/* The function behind a slot; it is looked for once it is needed. NULL where its library is not there. */
void *real_of(struct slot *slot);

/* A function of a library that is not replaced. NULL if it is not there. */
void *real_named(enum library library, const char *symbol);

/* The same, looked for once and again when a library was closed and opened elsewhere. */
struct kept {
	void *_Atomic function;
	_Atomic unsigned moves;
};
void *real_kept(enum library library, const char *symbol, struct kept *kept);

/* True for a function of the library's own file. */
bool real_is_from(enum library library, const void *function);

/* Remembers the function behind a slot unless one is known; those of a library that was closed since are forgotten. */
void real_is(struct slot *slot, void *found);

/* True once a function of the library has been found. */
bool real_seen(enum library library);

#endif
