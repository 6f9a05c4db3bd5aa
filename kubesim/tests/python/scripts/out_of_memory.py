# exit: 1
# error: ^torch(\.cuda)?\.OutOfMemoryError: CUDA out of memory\. Tried to allocate \d+\.\d\d GiB\. GPU 0 has a total capacity of \d+\.\d\d GiB of which
# error: ^Traceback \(most recent call last\):$
# expect: ^allocating 40 GiB: ok$
import torch

GIB = 2**30


def allocate(gib):
    block = torch.empty(gib * GIB, dtype=torch.uint8, device="cuda")
    print(f"allocating {gib} GiB: ok", flush=True)
    return block


def main():
    kept = []
    for gib in (20, 40, 80):
        kept.append(allocate(gib))
        kept[:-1] = []
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
