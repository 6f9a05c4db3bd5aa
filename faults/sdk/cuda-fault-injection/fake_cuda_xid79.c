/*
 * A library for LD_PRELOAD that makes a program's CUDA calls fail as on a GPU that has failed. See README.md.
 *
 *   CUDA_FAULT_INJECTION_ENABLED=1 CUDA_XID_TYPE=79 LD_PRELOAD=/cuda-fault/fake_cuda_xid79.so python3 serve.py
 *
 * Without both variables, or with an Xid that the table lacks, every call goes to the real library.
 * Written by `make -C native sdk` from native/sdk/fake_cuda_xid79.c.in and the table of Xids; rows of your own may be added below.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the CUDA driver API (cuda.h); the runtime API uses the same ones. */
enum cuda_error {
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_ECC_UNCORRECTABLE = 214,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
	CUDA_ERROR_CONTAINED = 226,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_UNKNOWN = 999,
	/* For rows of your own, such as {99, cudaErrorCustom, "Custom error description"}: give it any number. */
	cudaErrorCustom = 999,
};

struct fault {
	int xid;
	int error;
	const char *description;
};

/* A row is an Xid, the error of the calls, and what it stands for. A name that the enum lacks has to be added there. */
static const struct fault faults[] = {
	/* xids: the rows that `make -C native sdk` writes */
	{13, CUDA_ERROR_LAUNCH_FAILED, "Graphics engine exception"},
	{31, CUDA_ERROR_ILLEGAL_ADDRESS, "GPU memory page fault"},
	{43, CUDA_ERROR_LAUNCH_FAILED, "GPU stopped processing"},
	{45, CUDA_ERROR_LAUNCH_FAILED, "Preemptive cleanup, due to previous errors"},
	{46, CUDA_ERROR_LAUNCH_FAILED, "GPU stopped processing, reset needed"},
	{48, CUDA_ERROR_ECC_UNCORRECTABLE, "Double-bit ECC error"},
	{62, CUDA_ERROR_LAUNCH_FAILED, "Internal micro-controller halt"},
	{64, CUDA_ERROR_ECC_UNCORRECTABLE, "Row remapping failed"},
	{74, CUDA_ERROR_NVLINK_UNCORRECTABLE, "NVLink error"},
	{79, CUDA_ERROR_NO_DEVICE, "GPU has fallen off the bus"},
	{94, CUDA_ERROR_ECC_UNCORRECTABLE, "Contained ECC error"},
	{95, CUDA_ERROR_UNKNOWN, "Uncontained ECC error"},
	{109, CUDA_ERROR_LAUNCH_FAILED, "Context switch timeout"},
	{119, CUDA_ERROR_UNKNOWN, "GSP RPC timeout"},
	{120, CUDA_ERROR_UNKNOWN, "GSP error"},
	{140, CUDA_ERROR_ECC_UNCORRECTABLE, "Unrecovered ECC error"},
	/* xids: end */
};

/* A number of one to three digits as it is usually written; -1 for anything else. */
static int xid_of(const char *text)
{
	int number = 0;
	size_t length = strlen(text);

	if (length == 0 || length > 3 || text[0] == '0')
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = 10 * number + (text[i] - '0');
	}
	return number;
}

static int wanted_error(void)
{
	const char *enabled = getenv("CUDA_FAULT_INJECTION_ENABLED");
	const char *xid = getenv("CUDA_XID_TYPE");

	if (enabled == NULL || strcmp(enabled, "1") != 0 || xid == NULL)
		return 0;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].xid == xid_of(xid))
			return faults[i].error;
	return 0;
}

/* 0 without a fault. Read once: a GPU that has failed does not heal under a program. Two threads read the same. */
static int fault(void)
{
	static int error = -1;
	int known = __atomic_load_n(&error, __ATOMIC_RELAXED);

	if (known < 0) {
		known = wanted_error();
		__atomic_store_n(&error, known, __ATOMIC_RELAXED);
	}
	return known;
}

typedef void *(*lookup_fn)(void *, const char *);

/* The C library's own dlsym, which ours below hides. */
static void *real_dlsym(void *handle, const char *name)
{
#ifdef __GLIBC__
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_2.27" };
	static lookup_fn found;

	for (size_t i = 0; found == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = (lookup_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return found == NULL ? NULL : found(handle, name);
#else
	return dlsym(handle, name);
#endif
}

/* The function behind ours. Looked up at the first call: in a constructor the real library may not be there yet. */
static void *real(const char *name)
{
	int saved = errno;
	void *found = real_dlsym(RTLD_NEXT, name);

	errno = saved;
	return found;
}

/*
 * A call of CUDA: it fails if there is a fault, and is handed on otherwise.
 * Programs that open libcuda.so.1 themselves never get a disarmed wrapper (see dlsym), so that RTLD_NEXT is enough.
 */
#define CALL(name, parameters, arguments)                                      \
	int name parameters                                                    \
	{                                                                      \
		int (*next) parameters;                                        \
		int error = fault();                                           \
									       \
		if (error != 0)                                                \
			return error;                                          \
		next = (int(*) parameters)real(#name);                         \
		return next == NULL ? CUDA_ERROR_NOT_INITIALIZED : next arguments; \
	}

struct dim3 {
	unsigned int x, y, z;
};

/* Driver API: handles are pointers, device addresses integers. */
#define DRIVER_CALLS(X)                                                                                     \
	X(cuInit, (unsigned int flags), (flags))                                                            \
	X(cuDeviceGetCount, (int *count), (count))                                                          \
	X(cuDeviceGet, (int *device, int ordinal), (device, ordinal))                                       \
	X(cuDevicePrimaryCtxRetain, (void **context, int device), (context, device))                        \
	X(cuCtxCreate, (void **context, unsigned int flags, int device), (context, flags, device))          \
	X(cuCtxCreate_v2, (void **context, unsigned int flags, int device), (context, flags, device))       \
	X(cuCtxSynchronize, (void), ())                                                                     \
	X(cuMemAlloc, (unsigned int *address, unsigned int size), (address, size))                          \
	X(cuMemAlloc_v2, (unsigned long long *address, size_t size), (address, size))                       \
	X(cuMemAllocAsync, (unsigned long long *address, size_t size, void *stream), (address, size, stream)) \
	X(cuMemCreate, (unsigned long long *handle, size_t size, const void *properties, unsigned long long flags), \
	  (handle, size, properties, flags))                                                                \
	X(cuMemGetInfo_v2, (size_t *available, size_t *total), (available, total))                          \
	X(cuMemcpyHtoD_v2, (unsigned long long to, const void *from, size_t size), (to, from, size))        \
	X(cuMemcpyDtoH_v2, (void *to, unsigned long long from, size_t size), (to, from, size))              \
	X(cuMemcpyAsync, (unsigned long long to, unsigned long long from, size_t size, void *stream),       \
	  (to, from, size, stream))                                                                         \
	X(cuMemcpyHtoDAsync_v2, (unsigned long long to, const void *from, size_t size, void *stream),       \
	  (to, from, size, stream))                                                                         \
	X(cuMemcpyDtoHAsync_v2, (void *to, unsigned long long from, size_t size, void *stream),             \
	  (to, from, size, stream))                                                                         \
	X(cuModuleLoad, (void **module, const char *path), (module, path))                                  \
	X(cuModuleLoadData, (void **module, const void *image), (module, image))                            \
	X(cuLibraryLoadData,                                                                                \
	  (void **library, const void *code, void *jit, void **jit_values, unsigned int jit_count, void *options, \
	   void **values, unsigned int count),                                                              \
	  (library, code, jit, jit_values, jit_count, options, values, count))                              \
	X(cuLaunchKernel,                                                                                   \
	  (void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, \
	   unsigned int bz, unsigned int shared, void *stream, void **parameters, void **extra),            \
	  (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))                            \
	X(cuLaunchKernelEx, (const void *config, void *function, void **parameters, void **extra),          \
	  (config, function, parameters, extra))                                                            \
	X(cuGraphLaunch, (void *graph, void *stream), (graph, stream))                                      \
	X(cuStreamCreate, (void **stream, unsigned int flags), (stream, flags))                             \
	X(cuStreamSynchronize, (void *stream), (stream))                                                    \
	X(cuStreamQuery, (void *stream), (stream))                                                          \
	X(cuEventSynchronize, (void *event), (event))                                                       \
	X(cuEventQuery, (void *event), (event))

/* Runtime API. `<<<>>>` does not look at what a launch returns: cudaGetLastError tells programs of it. */
#define RUNTIME_CALLS(X)                                                                                    \
	X(cudaGetDeviceCount, (int *count), (count))                                                        \
	X(cudaGetDevice, (int *device), (device))                                                           \
	X(cudaSetDevice, (int device), (device))                                                            \
	X(cudaGetDeviceProperties, (void *properties, int device), (properties, device))                    \
	X(cudaGetDeviceProperties_v2, (void *properties, int device), (properties, device))                 \
	X(cudaDeviceSynchronize, (void), ())                                                                \
	X(cudaMalloc, (void **address, size_t size), (address, size))                                       \
	X(cudaMallocAsync, (void **address, size_t size, void *stream), (address, size, stream))            \
	X(cudaMallocManaged, (void **address, size_t size, unsigned int flags), (address, size, flags))     \
	X(cudaMallocHost, (void **address, size_t size), (address, size))                                   \
	X(cudaHostAlloc, (void **address, size_t size, unsigned int flags), (address, size, flags))         \
	X(cudaMemGetInfo, (size_t *available, size_t *total), (available, total))                           \
	X(cudaMemcpy, (void *to, const void *from, size_t size, int kind), (to, from, size, kind))          \
	X(cudaMemcpyAsync, (void *to, const void *from, size_t size, int kind, void *stream),               \
	  (to, from, size, kind, stream))                                                                   \
	X(cudaMemset, (void *at, int value, size_t size), (at, value, size))                                \
	X(cudaMemsetAsync, (void *at, int value, size_t size, void *stream), (at, value, size, stream))     \
	X(cudaLaunchKernel,                                                                                 \
	  (const void *function, struct dim3 grid, struct dim3 block, void **parameters, size_t shared, void *stream), \
	  (function, grid, block, parameters, shared, stream))                                              \
	X(cudaLaunchKernelExC, (const void *config, const void *function, void **parameters),               \
	  (config, function, parameters))                                                                   \
	X(cudaGraphLaunch, (void *graph, void *stream), (graph, stream))                                    \
	X(cudaStreamCreate, (void **stream), (stream))                                                      \
	X(cudaStreamCreateWithFlags, (void **stream, unsigned int flags), (stream, flags))                  \
	X(cudaStreamSynchronize, (void *stream), (stream))                                                  \
	X(cudaStreamQuery, (void *stream), (stream))                                                        \
	X(cudaEventSynchronize, (void *event), (event))                                                     \
	X(cudaEventQuery, (void *event), (event))                                                           \
	X(cudaGetLastError, (void), ())                                                                     \
	X(cudaPeekAtLastError, (void), ())

DRIVER_CALLS(CALL)
RUNTIME_CALLS(CALL)

/*
 * The CUDA runtime, Triton and others link none of the driver's functions: they open libcuda.so.1 and ask dlsym for
 * cuGetProcAddress_v2, and that for everything else. Both answer with the wrappers above while there is a fault.
 */
#define ROW(name, parameters, arguments) { #name, (void *)name },
static const struct wrapper {
	const char *name;
	void *function;
} wrappers[] = { DRIVER_CALLS(ROW) RUNTIME_CALLS(ROW) };

/* The wrapper of a name, or of its newer form: cuGetProcAddress is asked for cuMemAlloc, and gives cuMemAlloc_v2. */
static void *wrapper_of(const char *name, const char *suffix)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (strncmp(wrappers[i].name, name, length) == 0 && strcmp(wrappers[i].name + length, suffix) == 0)
			return wrappers[i].function;
	return NULL;
}

typedef int (*ask_fn)(const char *, void **, int, unsigned long long, void *);
typedef int (*ask_old_fn)(const char *, void **, int, unsigned long long);
static ask_fn real_ask;
static ask_old_fn real_ask_old;

/* The first request is for an empty name, to see whether the function is there: it goes on to the driver. */
static void *armed(const char *name)
{
	void *found;

	if (name == NULL || *name == '\0')
		return NULL;
	found = wrapper_of(name, "_v2");
	return found == NULL ? wrapper_of(name, "") : found;
}

/* As before CUDA 12. */
static int ask_old(const char *name, void **function, int version, unsigned long long flags)
{
	int error = CUDA_ERROR_NOT_INITIALIZED;
	void *found;

	if (real_ask_old != NULL)
		error = real_ask_old(name, function, version, flags);
	else if (real_ask != NULL)
		error = real_ask(name, function, version, flags, NULL);
	found = error == 0 ? armed(name) : NULL;
	if (found != NULL && function != NULL)
		*function = found;
	return error;
}

static int ask(const char *name, void **function, int version, unsigned long long flags, void *status)
{
	int error = real_ask == NULL ? CUDA_ERROR_NOT_INITIALIZED : real_ask(name, function, version, flags, status);
	void *found = error == 0 ? armed(name) : NULL;

	if (error == 0 && name != NULL && strcmp(name, "cuGetProcAddress") == 0)
		found = version < 12000 ? (void *)ask_old : (void *)ask;
	if (found != NULL && function != NULL)
		*function = found;
	return error;
}

#ifdef __GLIBC__
/* Anything but CUDA's names is the C library's business, and found from where the caller is: the call is its last. */
void *dlsym(void *handle, const char *name)
{
	void *found;

	if (name[0] != 'c' || name[1] != 'u' || fault() == 0)
		return real_dlsym(handle, name);
	found = real_dlsym(handle, name);
	if (found == NULL)
		return NULL;
	if (strcmp(name, "cuGetProcAddress_v2") == 0) {
		real_ask = (ask_fn)found;
		return (void *)ask;
	}
	if (strcmp(name, "cuGetProcAddress") == 0) {
		real_ask_old = (ask_old_fn)found;
		return (void *)ask_old;
	}
	return wrapper_of(name, "") == NULL ? found : wrapper_of(name, "");
}
#endif
