"""torch.utils.data. Threads and processes cannot start here: workers load inline."""

import math
import random

import torch
from torch._ops import module
from torch._tensor import Tensor


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
    order = torch.randperm(len(dataset)).tolist()
    return [Subset(dataset, order[sum(lengths[:at]) : sum(lengths[: at + 1])]) for at in range(len(lengths))]


class DistributedSampler:
    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        group = torch.distributed
        self.count = group.get_world_size() if num_replicas is None else num_replicas
        self.rank = group.get_rank() if rank is None else rank
        self.dataset, self.shuffle, self.seed, self.epoch = dataset, shuffle, seed, 0

    set_epoch = lambda self, epoch: setattr(self, "epoch", epoch)
    __len__ = lambda self: math.ceil(len(self.dataset) / self.count)

    def __iter__(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return iter((order + order[: -len(order) % self.count])[self.rank :: self.count])


def default_collate(batch):
    first = batch[0]
    if isinstance(first, Tensor):
        return torch.stack(batch)
    if isinstance(first, dict):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        return [default_collate(each) for each in zip(*batch, strict=True)]
    if hasattr(first, "__array__"):
        return torch.stack([torch.as_tensor(each) for each in batch])
    if isinstance(first, (int, float)):
        return torch.tensor(batch)
    return batch


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=False, sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, **more):  # fmt: skip
        if batch_size is not None and batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.dataset, self.batch_size, self.drop_last, self.num_workers = dataset, batch_size, drop_last, num_workers
        self.collate_fn, self.sampler, self.shuffle = collate_fn or default_collate, sampler, shuffle

    def __len__(self):
        count = len(self.dataset if self.sampler is None else self.sampler) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)

    def __iter__(self):
        order = self.sampler
        if order is None:
            order = torch.randperm(len(self.dataset)).tolist() if self.shuffle else range(len(self.dataset))
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            yield from (list(self.dataset[at]) for at in self._batches(order))
        else:
            yield from (self.collate_fn(batch) for batch in self._batches(self.dataset[at] for at in order))

    def _batches(self, source):
        batch = []
        for each in source:
            batch.append(each)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


distributed = module("torch.utils.data.distributed", DistributedSampler=DistributedSampler)
