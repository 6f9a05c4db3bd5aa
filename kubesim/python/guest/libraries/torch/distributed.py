"""torch.distributed. A rank meets the others through the environment that torchrun gives it."""

import contextlib
import functools
import io
import os
import sys
import time
import types

import _device
from _elements import NAMES, accepting, error
from machine import ask

from torch import nn
from torch._types import gpu_of, module

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LINK = 250e9
"""Bytes per second among the GPUs of a machine."""
OPERATORS = {"SUM": "add", "AVG": "add", "PRODUCT": "mul", "MIN": "minimum", "MAX": "maximum"}
ReduceOp = types.SimpleNamespace(**{name: name for name in OPERATORS})
MAX_EXCHANGED, TIMEOUT_S = 1 << 14, 600.0
"""Elements of a tensor that are exchanged one by one; of a larger one each rank's are taken to be alike."""
group = types.SimpleNamespace(rank=0, size=1, backend=None, count=0)
DistNetworkError = type("DistNetworkError", (RuntimeError,), {"__module__": "torch.distributed"})
is_available, is_initialized = lambda: True, lambda: group.backend is not None


def _checked():
    if group.backend is None:
        raise error("torch.group")
    return group


@accepting(NAMES["ignored"]["init_process_group"])
def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
    if group.backend:
        raise error("torch.twice")
    given = {"RANK": rank, "WORLD_SIZE": world_size}
    for name in VARIABLES if init_method in (None, "env://") else ():
        if given.get(name, -1) < 0 and not os.environ.get(name):
            raise error("torch.variable", name=name)
    gpus = _device.session.facts()["gpus"]
    if backend == "nccl" and not gpus:
        raise error("torch.nccl")
    group.rank = rank if rank >= 0 else int(os.environ["RANK"])
    group.size = world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])
    host, port = os.environ.get("MASTER_ADDR", "localhost"), os.environ.get("MASTER_PORT", "29500")
    if (init_method or "").startswith("tcp://"):
        host, _, port = init_method[6:].rpartition(":")
    until = time.time() + (timeout.total_seconds() if timeout else TIMEOUT_S)
    ask("join_group", rank=group.rank, size=group.size, host=host, port=int(port), until=until)
    group.backend = backend or ("nccl" if gpus else "gloo")
    sys.excepthook = functools.partial(_told, sys.excepthook)


def _told(before, *error):
    """Put the rank before each line of a traceback."""
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        before(*error)
    sys.stderr.write("".join(f"[rank{group.rank}]: {line}\n" for line in shown.getvalue().splitlines()))


def destroy_process_group(group=None):
    _checked().backend = None
    ask("leave_group")


get_rank, get_world_size = lambda group=None: _checked().rank, lambda group=None: _checked().size
get_backend = lambda group=None: _checked().backend
barrier = lambda group=None, async_op=False, device_ids=None: _met(None) and None


def _met(value):
    """Return what all ranks have brought, once they have come."""
    _checked().count += 1
    return ask("exchange", name=str(group.count), value=value)


def _gathered(tensor):
    """Let a tensor's bytes go around the ring of ranks; returns the elements of each rank's."""
    count, size, gpu = _checked().size, tensor.nbytes, gpu_of(tensor.device)
    seconds = 2 * (count - 1) / count * size / (LINK if gpu else 2e9) + 25e-6 * (count - 1)
    if gpu:
        _device.session.work(gpu, 0, seconds * gpu.about["bandwidth"] * _device.TRAFFIC)
    else:
        _device.session.spend(seconds, 0.3)
    if not tensor._known() or tensor.numel() > MAX_EXCHANGED:
        return None
    rows = _met([float(value) for value in tensor.detach()._flat()])
    return [tensor._new(tensor._shape, tensor._dtype, row) for row in rows]


def _combined(tensors, op):
    found = functools.reduce(lambda a, b: a._binary(OPERATORS[op], b), tensors)
    return found / len(tensors) if op == "AVG" else found


def all_reduce(tensor, op="SUM", group=None, async_op=False):
    rows = _gathered(tensor)
    tensor.detach().copy_(_combined(rows, op) if rows else tensor * (get_world_size() if op == "SUM" else 1))
    return types.SimpleNamespace(wait=lambda: True) if async_op else None


def broadcast(tensor, src=0, group=None, async_op=False):
    if rows := _gathered(tensor):
        tensor.detach().copy_(rows[src])


def all_gather(tensor_list, tensor, group=None, async_op=False):
    for each, row in zip(tensor_list, _gathered(tensor) or [tensor] * get_world_size(), strict=True):
        each.detach().copy_(row)


class DistributedDataParallel(nn.DataParallel):
    @accepting(NAMES["ignored"]["DistributedDataParallel"])
    def __init__(self, module, device_ids=None, output_device=None):
        _checked()
        super().__init__(module)
        for each in module.parameters():
            broadcast(each)
            each.register_hook(self.average)

    def average(self, grad):
        rows = _gathered(grad) if group.size > 1 else None
        return _combined(rows, "AVG") if rows else grad


module("torch.nn.parallel", DistributedDataParallel=DistributedDataParallel, DataParallel=nn.DataParallel)
