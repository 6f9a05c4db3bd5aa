/* A driver with one healthy GPU: what the library of the SDK stands before. */
#include <stddef.h>
#include <string.h>

int cuInit(unsigned int flags)
{
	return flags == 0 ? 0 : 1;
}

int cuDeviceGetCount(int *count)
{
	*count = 1;
	return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
	*address = size;
	return 0;
}

int cudaMalloc(void **address, size_t size)
{
	*address = (void *)size;
	return 0;
}

int cudaGetLastError(void)
{
	return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, void *status)
{
	(void)version, (void)flags, (void)status;
	*function = NULL;
	if (strcmp(name, "cuInit") == 0)
		*function = (void *)cuInit;
	if (strcmp(name, "cuMemAlloc") == 0)
		*function = (void *)cuMemAlloc_v2;
	if (strcmp(name, "cuGetProcAddress") == 0)
		*function = (void *)cuGetProcAddress_v2;
	return 0;
}
