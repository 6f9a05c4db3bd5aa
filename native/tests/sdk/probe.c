/* Prints what a program gets by each way into the driver: linked, by dlsym, by cuGetProcAddress; and errno. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

typedef int (*init_fn)(unsigned int);
typedef int (*alloc_fn)(unsigned long long *, size_t);
typedef int (*ask_fn)(const char *, void **, int, unsigned long long, void *);

int cuInit(unsigned int flags);
int cudaMalloc(void **address, size_t size);
int cudaGetLastError(void);

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *at, *found = NULL;
	unsigned long long address;
	ask_fn ask, nested;

	errno = EDOM;
	printf("linked %d %d %d\n", cuInit(0), cudaMalloc(&at, 8), cudaGetLastError());
	printf("errno %s\n", errno == EDOM ? "kept" : "changed");
	if (driver == NULL)
		return 1;
	printf("dlsym %d\n", ((init_fn)dlsym(driver, "cuInit"))(0));
	ask = (ask_fn)dlsym(driver, "cuGetProcAddress_v2");
	printf("probe %d\n", ask("", &found, 0, 0, NULL));
	ask("cuGetProcAddress", &found, 12000, 0, NULL);
	nested = (ask_fn)found;
	nested("cuMemAlloc", &found, 12000, 0, NULL);
	printf("asked %d\n", ((alloc_fn)found)(&address, 8));
	printf("others %s\n", dlsym(RTLD_DEFAULT, "printf") == NULL ? "lost" : "found");
	return 0;
}
