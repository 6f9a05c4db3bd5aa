"""torch.distributed. A rank meets the others through the environment that torchrun gives it."""

import os
import types

import _device

from torch import nn
from torch._ops import module
from torch._types import gpu_of

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LINK = 250e9
"""Bytes per second among the GPUs of a machine."""
ReduceOp = types.SimpleNamespace(SUM="SUM", AVG="AVG", PRODUCT="PRODUCT", MIN="MIN", MAX="MAX")
state = types.SimpleNamespace(rank=0, size=1, backend=None)
DistBackendError = type("DistBackendError", (RuntimeError,), {"__module__": "torch.distributed"})
is_available = is_nccl_available = is_gloo_available = lambda: True
is_mpi_available, is_initialized = lambda: False, lambda: state.backend is not None
is_torchelastic_launched = lambda: "TORCHELASTIC_RUN_ID" in os.environ


def _checked():
    if state.backend is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return state


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, **more):
    if state.backend:
        raise ValueError("trying to initialize the default process group twice!")
    given = {"RANK": rank, "WORLD_SIZE": world_size}
    for name in VARIABLES if init_method in (None, "env://") else ():
        if given.get(name, -1) < 0 and not os.environ.get(name):
            raise ValueError(
                f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set"
            )
    gpus = _device.session.facts()["gpus"]
    if backend == "nccl" and not gpus:
        raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    state.rank = rank if rank >= 0 else int(os.environ["RANK"])
    state.size = world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])
    state.backend = backend or ("nccl" if gpus else "gloo")


def destroy_process_group(group=None):
    _checked().backend = None


get_rank, get_world_size = lambda group=None: _checked().rank, lambda group=None: _checked().size
get_backend, new_group = lambda group=None: _checked().backend, lambda *args, **more: None
barrier = lambda *args, **more: _checked() and None


def _exchange(size, where):
    """Let bytes go around the ring of ranks."""
    count = _checked().size
    seconds = 2 * (count - 1) / count * size / (LINK if where.type == "cuda" else 2e9) + 25e-6 * (count - 1)
    gpu = gpu_of(where)
    if gpu:
        _device.session.work(gpu, 0, seconds * gpu.about["bandwidth"] * _device.TRAFFIC)
    else:
        _device.session.spend(seconds, 0.3)


def all_reduce(tensor, op="SUM", group=None, async_op=False):
    """Exchange; the other ranks' values are taken to be like this one's."""
    _exchange(tensor.nbytes, tensor.device)
    if op == "SUM" and state.size > 1:
        tensor.detach().mul_(state.size)
    return types.SimpleNamespace(wait=lambda: True) if async_op else None


def broadcast(tensor, src=0, group=None, async_op=False):
    _exchange(tensor.nbytes / 2, tensor.device)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _exchange(tensor.nbytes * state.size, tensor.device)
    for each in tensor_list:
        each.detach().copy_(tensor)


class DistributedDataParallel(nn.Module):
    def __init__(self, module, device_ids=None, **more):
        _checked()
        super().__init__()
        self.module = module
        parameters = list(module.parameters())
        size = sum(each.nbytes for each in parameters)
        if parameters:
            parameters[0].register_hook(lambda grad: _exchange(size * 0.35, grad.device))

    forward = lambda self, *args, **more: self.module(*args, **more)

    def no_sync(self):
        return nn.set_grad(True)


nn.parallel = module(
    "torch.nn.parallel", DistributedDataParallel=DistributedDataParallel, DataParallel=nn.DataParallel
)


def __getattr__(name):
    raise AttributeError(f"module 'torch.distributed' has no attribute {name!r}")
