# expect: ^batch +\d+: ok, \d+\.\d GiB$
# expect: ^batch +\d+: out of memory$
# expect: ^largest batch that fits: \d+$
import gc

import torch


def fits(batch):
    """Tell whether activations of a batch fit into the device."""
    try:
        held = [torch.empty((batch, 1024, 1024), dtype=torch.float32, device="cuda") for _ in range(4)]
        used = torch.cuda.memory_allocated() / 2**30
        del held
        print(f"batch {batch:5d}: ok, {used:.1f} GiB")
        return True
    except torch.cuda.OutOfMemoryError:
        print(f"batch {batch:5d}: out of memory")
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()


batch = 256
while fits(batch):
    batch *= 2
low, high = batch // 2, batch
while high - low > 64:
    middle = (low + high) // 2
    if fits(middle):
        low = middle
    else:
        high = middle
print("largest batch that fits:", low)
