/* Reads the settings of a fault, as faultctl gets them on its command line. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include "layout.h"

/* Adds one setting ("xid=79", "gpu=0", "hide") to a fault. Returns NULL, or a sentence that says what is wrong with it. */
const char *settings_read(const char *text, uint64_t fault[FAULT_WORDS]);

/* NULL if the settings make a fault together, or what is missing. */
const char *settings_complete(const uint64_t fault[FAULT_WORDS]);

/* Arms the fault of CUDA_XID_TYPE in a page: every call fails from the first on. False if it is no Xid of the table. */
bool settings_of_variable(const char *xid, struct control *page);

#endif
