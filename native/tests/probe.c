/* Prints what a program sees: the result of each call, the number of GPUs, and whether errno was touched. */
#include <errno.h>
#include <stdio.h>

int cuInit(unsigned int flags);
int cuDeviceGetCount(int *count);

int main(void)
{
	int count = -1, init, counted;

	errno = EDOM;
	init = cuInit(0);
	counted = cuDeviceGetCount(&count);
	printf("%d %d %d %s\n", init, counted, count, errno == EDOM ? "kept" : "changed");
	return 0;
}
