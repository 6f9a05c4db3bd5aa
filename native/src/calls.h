/* What the replaced calls have in common. Their tables (*.def) are included with different meanings of CALL and OWN. */
#ifndef CALLS_H
#define CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "fault.h"
#include "real.h"

/* Structures that are passed by value, by their size in bytes: all are made of integers. */
struct b8 { uint32_t words[2]; };
struct b12 { uint32_t words[3]; };
struct b24 { uint64_t words[3]; };
struct b32 { uint64_t words[4]; };
struct b64 { uint64_t words[8]; };
struct b128 { uint64_t words[16]; };

struct table {
	struct slot *slots;
	size_t count;
};
extern const struct table driver_table, runtime_table, nvml_table, nccl_table;

/* Rows of an enum, of prototypes and of slots, for the tables' users. */
#define AT(symbol) at_##symbol
#define INDEX(symbol, base, version, kind, extra, params, names) AT(symbol),
#define PROTOTYPE(symbol, base, version, kind, extra, params, names) EXPORT int symbol params;
#define SLOT(in, symbol, base, version) { #symbol, #base, version, in, (void *)symbol, NULL },

/* The function behind a slot as it is known now, without looking for it. */
#define KNOWN(slot, params) ((int(*) params)atomic_load_explicit(&(slot).real, memory_order_acquire))
#define FOUND(slot, params) ((int(*) params)real_of(&(slot)))

#endif
