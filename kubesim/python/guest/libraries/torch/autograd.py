"""torch.autograd."""

import torch
from torch._autograd import backward  # noqa: F401
from torch._tensor import Tensor

no_grad, enable_grad, Variable = torch.no_grad, torch.enable_grad, Tensor


class set_detect_anomaly(torch.set_grad):
    def __init__(self, mode=True):
        super().__init__(True)


detect_anomaly = set_detect_anomaly


def grad(outputs, inputs, grad_outputs=None, retain_graph=False, create_graph=False):
    inputs = [inputs] if isinstance(inputs, Tensor) else inputs
    kept = [each.grad for each in inputs]
    for each in inputs:
        each.grad = None
    outputs.backward(grad_outputs, retain_graph)
    found = tuple(each.grad for each in inputs)
    for each, before in zip(inputs, kept, strict=True):
        each.grad = before
    return found
