# argv: torchrun --standalone --nproc_per_node=2 {script}
# gpus: 2
# expect: rank 0 of 2 on cuda:0
# expect: rank 1 of 2 on cuda:1
# expect: ^epoch 0 mean loss \d+\.\d{4}$
# expect: ^sum of ranks: 1$
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group(backend="nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    print(f"rank {rank} of {world} on {device}", flush=True)
    model = DDP(torch.nn.Linear(10, 1).to(device), device_ids=[local])
    data = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        total = torch.zeros(1, device=device)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"epoch {epoch} mean loss {total.item() / len(loader) / world:.4f}", flush=True)
    mine = torch.tensor([rank], device=device)
    dist.all_reduce(mine)
    if rank == 0:
        print("sum of ranks:", int(mine.item()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
