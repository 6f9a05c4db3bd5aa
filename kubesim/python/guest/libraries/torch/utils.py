"""torch.utils, with torch.utils.data. Threads and processes cannot start here: workers load inline."""

import math
import random

from _elements import NAMES, accepting

import torch
from torch._types import module


class Dataset:
    def __getitem__(self, at):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")


class TensorDataset(Dataset):
    def __init__(self, *tensors):
        assert all(each._shape[0] == tensors[0]._shape[0] for each in tensors), "Size mismatch between tensors"
        self.tensors = tensors

    __getitem__ = lambda self, at: tuple(each[at] for each in self.tensors)
    __len__ = lambda self: self.tensors[0]._shape[0]


class Subset(Dataset):
    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    __getitem__, __len__ = lambda self, at: self.dataset[self.indices[at]], lambda self: len(self.indices)


def random_split(dataset, lengths, generator=None):
    if all(isinstance(each, float) for each in lengths):
        lengths = [int(len(dataset) * each) for each in lengths]
        lengths[0] += len(dataset) - sum(lengths)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(len(dataset), generator=generator).tolist()
    return [Subset(dataset, order[sum(lengths[:at]) :][:length]) for at, length in enumerate(lengths)]


class DistributedSampler:
    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        self.count = torch.distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank = torch.distributed.get_rank() if rank is None else rank
        self.dataset, self.shuffle, self.seed, self.epoch, self.drop_last = dataset, shuffle, seed, 0, drop_last

    set_epoch = lambda self, epoch: setattr(self, "epoch", epoch)
    __len__ = lambda self: (math.floor if self.drop_last else math.ceil)(len(self.dataset) / self.count)

    def __iter__(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return iter((order + order)[: len(self) * self.count][self.rank :: self.count])


def default_collate(batch):
    first = batch[0]
    if isinstance(first, dict):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        return [default_collate(each) for each in zip(*batch, strict=True)]
    if hasattr(first, "__array__"):
        return torch.stack([torch.as_tensor(each) for each in batch])
    return torch.tensor(batch) if isinstance(first, (int, float)) else batch


class DataLoader:
    @accepting(NAMES["ignored"]["DataLoader"])
    def __init__(self, dataset, batch_size=1, shuffle=False, sampler=None, num_workers=0, collate_fn=None,
                 drop_last=False, generator=None):  # fmt: skip
        if not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.dataset, self.batch_size, self.drop_last, self.num_workers = dataset, batch_size, drop_last, num_workers
        self.sampler = sampler
        self.collate_fn, self.shuffle, self.generator = collate_fn or default_collate, shuffle, generator

    def __len__(self):
        count = len(self.dataset if self.sampler is None else self.sampler) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)

    def __iter__(self):
        order = range(len(self.dataset)) if self.sampler is None else list(self.sampler)
        if self.sampler is None and self.shuffle:
            order = torch.randperm(len(order), generator=self.generator).tolist()
        for chosen in (list(order[at * self.batch_size :][: self.batch_size]) for at in range(len(self))):
            if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
                yield list(self.dataset[chosen])
            else:
                yield self.collate_fn([self.dataset[each] for each in chosen])


PARTS = {
    "dataset": (Dataset, TensorDataset, Subset, random_split),
    "dataloader": (DataLoader, default_collate),
    "distributed": (DistributedSampler,),
}
data = module("torch.utils.data")
for part, members in PARTS.items():
    module(f"torch.utils.data.{part}", **{each.__name__: each for each in members})
    for each in members:
        each.__module__ = f"torch.utils.data.{part}"
        setattr(data, each.__name__, each)
