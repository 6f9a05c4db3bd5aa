"""torch.optim. The options of the optimizers are in ``names.json``, with the learning rate at which each does well."""

import math

from _elements import NAMES, bind

from torch._tensor import set_grad
from torch._types import module, state, work


class Optimizer:
    """The common part: groups of parameters with options, and a state for each parameter."""

    buffers, decoupled = 1, False

    def __init__(self, params, *args, **more):
        params, self.state = list(params), {}
        self.defaults = bind(type(self).__name__, self.about, args, more)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        if self.defaults["lr"] < 0:
            raise ValueError(f"Invalid learning rate: {self.defaults['lr']}")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = [{**self.defaults, **each, "params": list(each["params"])} for each in groups]

    parameters = lambda self: [each for group in self.param_groups for each in group["params"]]

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def step(self, closure=None):
        loss = closure() if closure else None
        with set_grad(False):
            known = [self._advance(each, group) for group in self.param_groups for each in group["params"]]
        if not all(known):
            state.course.advance(self.param_groups[0]["lr"] / self.about["course"])
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
        if known := each.grad._known() and each._known():
            x, decay = each.detach(), group.get("weight_decay", 0)
            if self.decoupled:
                x.mul_(1 - group["lr"] * decay)
            self.update(x, each.grad + x * decay if decay and not self.decoupled else each.grad, kept, **group)
        return known

    def state_dict(self):
        groups = [{**group, "params": list(range(len(group["params"])))} for group in self.param_groups]
        return {"state": [self.state.get(id(each)) for each in self.parameters()], "param_groups": groups}

    def load_state_dict(self, state_dict):
        pairs = zip(self.parameters(), state_dict["state"], strict=True)
        self.state = {id(each): kept for each, kept in pairs if kept}
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})


class SGD(Optimizer):
    def update(self, x, g, kept, lr, momentum, dampening, nesterov, **others):
        if momentum:
            speed = kept["buffers"][0]
            speed.copy_(speed * momentum + g * (1 - dampening) if kept["step"] > 1 else g)
            g = g + speed * momentum if nesterov else speed
        x.sub_(g * lr)


class Adam(Optimizer):
    buffers = 2

    def update(self, x, g, kept, lr, betas, eps, **others):
        (first, second), (mean, square), steps = betas, kept["buffers"], kept["step"]
        mean.copy_(mean * first + g * (1 - first))
        square.copy_(square * second + g * g * (1 - second))
        x.sub_(mean / (square.sqrt() / math.sqrt(1 - second**steps) + eps) * (lr / (1 - first**steps)))


class AdamW(Adam):
    decoupled = True


class RMSprop(Optimizer):
    def update(self, x, g, kept, lr, alpha, eps, **others):
        square = kept["buffers"][0]
        square.copy_(square * alpha + g * g * (1 - alpha))
        x.sub_(g / (square.sqrt() + eps) * lr)


for kind in (SGD, Adam, AdamW, RMSprop):
    kind.about = NAMES["optimizers"][kind.__name__]


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
