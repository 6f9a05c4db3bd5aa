/* The control file as the library reads it, and what the process remembers of each fault. */
#ifndef CONTROL_H
#define CONTROL_H

#include <stdbool.h>
#include "layout.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* The word that every call reads: 0 while nothing is armed. Before the first call it is a word of ours that is not 0. */
extern const _Atomic uint64_t *_Atomic gate;

static inline bool disarmed(void)
{
	return atomic_load_explicit(atomic_load_explicit(&gate, memory_order_acquire), memory_order_relaxed) == 0;
}

/* Opens the control file, once; afterwards whether nothing is armed. */
bool control_disarmed(void);

/* The number of the fault in a place, 0 if there is none; it may not have begun, or be over. */
uint64_t control_id(int place);

/* Copies the fault in a place. False if there is none, or if it has not begun or is over at this moment. */
bool control_fault(int place, uint64_t fault[FAULT_WORDS]);

/* From now on every call asks, even when everything is disarmed: a context of this process is dead. */
void control_keep_asking(void);

/* True while the fault that was in the place is there still. */
bool control_still(int place, uint64_t id);

uint64_t now_ns(void);

#endif
