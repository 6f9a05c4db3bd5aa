"""An NCCL program: each GPU is a rank, and all add up a tensor for each line of its input."""

import os
import sys
import tempfile
import threading
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TIMEOUT = timedelta(seconds=20)


def rank_program(rank: int, size: int, store: str, lines: list) -> None:
    """Take part in each sum; rank 0 reads the input and tells of it."""
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=size, timeout=TIMEOUT)
    tensor = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    for number in range(1, 1 + len(lines)):
        lines[number - 1].wait()
        tensor.fill_(1)
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        if rank == 0:
            print(f"step {number}: {'ok' if tensor[0].item() == size else 'a wrong result'}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Start a process for each GPU, and hand the lines on."""
    size = torch.cuda.device_count()
    print(f"{size} ranks", flush=True)
    context = mp.get_context("spawn")
    lines = [context.Event() for _ in range(int(sys.argv[1]))]
    threading.Thread(target=hand_on, args=(lines,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_program, args=(size, os.path.join(folder, "store"), lines), nprocs=size)


def hand_on(lines: list) -> None:
    """Let the ranks take a step for each line. Not through ``sys.stdin``, whose lock the end of the program needs."""
    for event in lines:
        while os.read(0, 1) not in (b"\n", b""):
            pass
        event.set()


if __name__ == "__main__":
    main()
