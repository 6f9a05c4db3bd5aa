/* What the parts of the stub driver know of each other. */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Structures that are passed by value, by their size. */
struct b8 { uint32_t words[2]; };
struct b64 { uint64_t words[8]; };

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };
enum { STUB_VERSION = 13000 };

/* What happens to every call: it is counted, and it needs cuInit. */
int stub_done(void);

/* The devices that the process sees (CUDA_VISIBLE_DEVICES), their UUIDs (GPU-0000...n) and their buses. */
int stub_devices(void);
void stub_uuid(unsigned char uuid[16], int device);
int stub_bus(int device);

/* The digest by which the runtime recognises a driver. */
void stub_handshake(uint32_t version, uint64_t seconds, const void *runtime_table, const void *const *own_table, void *digest);

#define CALL(symbol, base, version, kind, extra, params, names) EXPORT int symbol params;
#define OWN CALL
#include "../src/driver.def"
#undef CALL
#undef OWN

#endif
