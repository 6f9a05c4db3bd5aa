"""torch.optim."""

import inspect
import math

from _elements import bind

from torch._tensor import set_grad
from torch._types import module, state, work

USUAL = {"SGD": 0.05, "Adam": 1e-3, "AdamW": 5e-4}
"""Learning rates at which a training goes as it usually does."""


class Optimizer:
    """The common part: groups of parameters with options, and a state for each parameter."""

    buffers = 1

    def __init__(self, params, *args, **more):
        params, self.defaults = list(params), bind(type(self).__name__, inspect.signature(self.options), args, more)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        if self.defaults["lr"] < 0:
            raise ValueError(f"Invalid learning rate: {self.defaults['lr']}")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = [{**self.defaults, **each, "params": list(each["params"])} for each in groups]
        self.state = {}

    parameters = lambda self: [each for group in self.param_groups for each in group["params"]]

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def step(self, closure=None):
        loss = closure() if closure else None
        with set_grad(False):
            known = [self._advance(each, group) for group in self.param_groups for each in group["params"]]
        if not all(known):
            state.course.advance(self.param_groups[0]["lr"] / USUAL.get(type(self).__name__, 1e-3))
        return loss

    def _advance(self, each, group):
        """Change one parameter; False where only its statistics are known."""
        if each.grad is None:
            return True
        if id(each) not in self.state:
            buffers = [each._guess(each._shape, each._dtype, 0.0) for _ in range(self.buffers)]
            self.state[id(each)] = {"step": 0, "buffers": buffers}
        kept = self.state[id(each)]
        kept["step"] += 1
        work(each._device, 0, each.nbytes * (3 + 2 * self.buffers))
        if not each.grad._known() or not each._known():
            return False
        self.update(each.detach(), each.grad, group, kept)
        return True

    def state_dict(self):
        groups = [{**group, "params": list(range(len(group["params"])))} for group in self.param_groups]
        return {"state": [self.state.get(id(each)) for each in self.parameters()], "param_groups": groups}

    def load_state_dict(self, state_dict):
        pairs = zip(self.parameters(), state_dict["state"], strict=True)
        self.state = {id(each): kept for each, kept in pairs if kept}
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})


class SGD(Optimizer):
    options = staticmethod(lambda lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False: None)

    def update(self, x, g, group, kept):
        g = g + x * group["weight_decay"] if group["weight_decay"] else g
        if group["momentum"]:
            speed = kept["buffers"][0]
            speed.copy_(speed * group["momentum"] + g * (1 - group["dampening"]) if kept["step"] > 1 else g)
            g = g + speed * group["momentum"] if group["nesterov"] else speed
        x.sub_(g * group["lr"])


class Adam(Optimizer):
    buffers, decoupled = 2, False
    options = staticmethod(
        lambda lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, foreach=None, fused=None: None
    )

    def update(self, x, g, group, kept):
        (first, second), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        if self.decoupled:
            x.mul_(1 - lr * decay)
        elif decay:
            g = g + x * decay
        mean, square = kept["buffers"]
        mean.copy_(mean * first + g * (1 - first))
        square.copy_(square * second + g * g * (1 - second))
        root = square.sqrt() / math.sqrt(1 - second ** kept["step"]) + group["eps"]
        x.sub_(mean / root * (lr / (1 - first ** kept["step"])))


class AdamW(Adam):
    decoupled = True
    options = staticmethod(
        lambda lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, foreach=None, fused=None: None
    )


class RMSprop(Optimizer):
    options = staticmethod(lambda lr=1e-2, alpha=0.99, eps=1e-8: None)

    def update(self, x, g, group, kept):
        square = kept["buffers"][0]
        square.copy_(square * group["alpha"] + g * g * (1 - group["alpha"]))
        x.sub_(g / (square.sqrt() + group["eps"]) * group["lr"])


class LambdaLR:
    """A rule of the epoch for a factor of the first learning rate."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer, self.rule, self.last_epoch = optimizer, lr_lambda, last_epoch
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def step(self):
        self.last_epoch += 1
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base * self.rule(self.last_epoch)

    get_last_lr = lambda self: [group["lr"] for group in self.optimizer.param_groups]
    state_dict = lambda self: {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}
    load_state_dict = lambda self, state_dict: vars(self).update(state_dict)


def StepLR(optimizer, step_size, gamma=0.1, last_epoch=-1):
    return LambdaLR(optimizer, lambda epoch: gamma ** (epoch // step_size), last_epoch)


def CosineAnnealingLR(optimizer, T_max, eta_min=0.0, last_epoch=-1):
    low = eta_min / optimizer.param_groups[0]["lr"]
    rule = lambda epoch: low + (1 - low) * (1 + math.cos(math.pi * epoch / T_max)) / 2
    return LambdaLR(optimizer, rule, last_epoch)


RULES = (LambdaLR, StepLR, CosineAnnealingLR)
module("torch.optim.lr_scheduler", **{each.__name__: each for each in RULES})
