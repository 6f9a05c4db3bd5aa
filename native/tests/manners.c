/* How the library behaves towards a program: one check per word of the command line, each printing what it saw. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*init_fn)(int);
typedef int (*context_fn)(void *, int, int);
typedef int (*void_fn)(void);

static void *driver;

static void *of(const char *symbol)
{
	return dlsym(driver, symbol);
}

static int synchronize(void)
{
	return ((void_fn)of("cuCtxSynchronize"))();
}

static void context(void)
{
	void *made;

	((init_fn)of("cuInit"))(0);
	((context_fn)of("cuCtxCreate_v2"))(&made, 0, 0);
}

static int keeps_errno(void)
{
	int result;

	errno = EDOM;
	result = ((init_fn)of("cuInit"))(0);
	result += synchronize() * 0;
	return printf("%s %d\n", errno == EDOM ? "kept" : "changed", result);
}

/* other.so, preloaded behind the library, counts what arrives at it by RTLD_NEXT. */
static int chains(void)
{
	int *count = dlsym(RTLD_DEFAULT, "other_calls");

	((init_fn)dlsym(RTLD_DEFAULT, "cuInit"))(0);
	return printf("%d\n", count == NULL ? -1 : *count);
}

static int forks(void)
{
	int status;
	pid_t child;

	context();
	child = fork();
	if (child == 0)
		_exit(synchronize() & 0x7f);
	waitpid(child, &status, 0);
	return printf("%d %d\n", WEXITSTATUS(status), synchronize());
}

static void *many(void *sum)
{
	void *made;

	((context_fn)of("cuCtxCreate_v2"))(&made, 0, 0);
	for (int i = 0; i < 20000; i++)
		*(long *)sum += synchronize() != 0;
	return NULL;
}

/* Threads call while the other end of the pipe arms and disarms. */
static int threads(void)
{
	pthread_t ids[4];
	long sums[4] = { 0 }, all = 0;

	context();
	for (int i = 0; i < 4; i++)
		pthread_create(&ids[i], NULL, many, &sums[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(ids[i], NULL);
		all += sums[i];
	}
	return printf("%ld\n", all);
}

static int is_mapped(const char *what)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		found |= strstr(line, what) != NULL;
	if (maps != NULL)
		fclose(maps);
	return found;
}

/* Nothing is opened before the first call. */
static int maps(const char *what)
{
	int before = is_mapped(what);

	((init_fn)of("cuInit"))(0);
	return printf("%d %d\n", before, is_mapped(what));
}

static int asks_for_nothing(void)
{
	void *none = dlsym(RTLD_DEFAULT, "cuNoSuchCall"), *direct = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	const char *error = dlerror();

	return printf("%s %s %s\n", none == NULL ? "none" : "some", direct == NULL ? "none" : "some", error == NULL ? "no error" : error);
}

/* Something else lies where the library was, so that it is elsewhere when it is opened again. */
static void *reopened(void *library, const char *file)
{
	struct link_map *object;
	void *place;

	dlinfo(library, RTLD_DI_LINKMAP, &object);
	place = (void *)object->l_addr;
	dlclose(library);
	mmap(place, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

/* What programs do that look whether there is a GPU before they use it. */
static int reopens(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *device;
	int result = 0, running;

	context();
	running = synchronize();
	driver = reopened(driver, "libcuda.so.1");
	context();
	for (int round = 0; round < 2; round++) {
		result += ((init_fn)dlsym(nvml, "nvmlInit_v2"))(0);
		result += ((int (*)(int, void *))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
		if (round == 0)
			nvml = reopened(nvml, "libnvidia-ml.so.1");
	}
	return printf("%d %d %d\n", running, synchronize(), result);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (strcmp(what, "errno") == 0)
		keeps_errno();
	else if (strcmp(what, "chains") == 0)
		chains();
	else if (strcmp(what, "forks") == 0)
		forks();
	else if (strcmp(what, "threads") == 0)
		threads();
	else if (strcmp(what, "maps") == 0 && count == 3)
		maps(words[2]);
	else if (strcmp(what, "reopens") == 0)
		reopens();
	else if (strcmp(what, "nothing") == 0)
		asks_for_nothing();
	else
		puts("plain");
	return 0;
}
