/* A libnccl.so.2 that succeeds in everything. */
#include <stdatomic.h>

/* How often a call arrived here. */
__attribute__((visibility("default"))) _Atomic unsigned long stub_nccl_calls;

int stub_done(void);
int stub_done(void)
{
	atomic_fetch_add(&stub_nccl_calls, 1);
	return 0;
}

__attribute__((visibility("default"))) int stub_nccl_count(void);
int stub_nccl_count(void)
{
	return (int)atomic_load(&stub_nccl_calls);
}
