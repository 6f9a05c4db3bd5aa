"""torch.optim."""

import math

from torch._autograd import set_grad
from torch._types import work
from torch.nn.functional import course

USUAL = {"SGD": 0.05, "Adam": 1e-3, "AdamW": 5e-4, "RMSprop": 1e-3, "Adagrad": 1e-2}
"""Learning rates at which a training goes as it usually does."""


class Optimizer:
    """The common part: groups of parameters with options, and a state for each parameter."""

    buffers = 1

    def __init__(self, params, **options):
        params = list(params)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        if options["lr"] < 0:
            raise ValueError(f"Invalid learning rate: {options['lr']}")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = [{**options, **each, "params": list(each["params"])} for each in groups]
        self.defaults, self.state, self.steps = options, {}, 0

    parameters = lambda self: [each for group in self.param_groups for each in group["params"]]

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def step(self, closure=None):
        loss = closure() if closure else None
        self.steps += 1
        with set_grad(False):
            estimated = [self._advance(each, group) for group in self.param_groups for each in group["params"]]
        if any(estimated):
            course.advance(self.param_groups[0]["lr"] / USUAL.get(type(self).__name__, 1e-3))
        return loss

    def _advance(self, each, group):
        """Change one parameter; True where only its statistics are known."""
        if each.grad is None:
            return False
        kept = self.state.get(id(each))
        if kept is None:
            kept = self.state[id(each)] = {"step": 0, "buffers": [each._guess(each._shape, each._dtype, 0.0) for _ in range(
                self.buffers)]}  # fmt: skip
        kept["step"] += 1
        work(each.device, 0, each.nbytes * (3 + 2 * self.buffers))
        if each.grad._known() and each._known():
            self.update(each.detach(), each.grad, group, kept)
            return False
        return True

    def state_dict(self):
        groups = [{**group, "params": list(range(len(group["params"])))} for group in self.param_groups]
        return {"state": [self.state.get(id(each)) for each in self.parameters()], "param_groups": groups}

    def load_state_dict(self, found):
        self.state = {id(each): kept for each, kept in zip(self.parameters(), found["state"], strict=True) if kept}
        for group, saved in zip(self.param_groups, found["param_groups"], strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for at, group in enumerate(self.param_groups):
            text += f"\nParameter Group {at}\n" + "\n".join(
                f"    {key}: {group[key]}" for key in sorted(group) if key != "params"
            )
        return text + "\n)"


class SGD(Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False):
        self.buffers = 1 if momentum else 0
        options = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, lr=lr, **options)

    def update(self, x, g, group, kept):
        g = g + x * group["weight_decay"] if group["weight_decay"] else g
        if group["momentum"]:
            speed = kept["buffers"][0]
            speed.copy_(speed * group["momentum"] + g if kept["step"] > 1 else g)
            g = g + speed * group["momentum"] if group["nesterov"] else speed
        x.sub_(g * group["lr"])


class Adam(Optimizer):
    buffers, decoupled = 2, False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, **more):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **more)

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

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, **more):
        super().__init__(params, lr, betas, eps, weight_decay, **more)


class RMSprop(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, **more):
        super().__init__(params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay)

    def update(self, x, g, group, kept):
        square = kept["buffers"][0]
        square.copy_(square * group["alpha"] + g * g * (1 - group["alpha"]))
        x.sub_(g / (square.sqrt() + group["eps"]) * group["lr"])


from torch.optim import lr_scheduler  # noqa: E402, F401


def __getattr__(name):
    raise AttributeError(f"module 'torch.optim' has no attribute {name!r}")
