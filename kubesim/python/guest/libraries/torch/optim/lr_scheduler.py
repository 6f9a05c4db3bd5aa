"""torch.optim.lr_scheduler: each a rule of the epoch for a factor of the first learning rate."""

import math


class LambdaLR:
    def __init__(self, optimizer, lr_lambda, last_epoch=-1, **more):
        self.optimizer, self.rule, self.last_epoch = optimizer, lr_lambda, last_epoch
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def step(self, *metrics):
        self.last_epoch += 1
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base * self.rule(self.last_epoch)

    get_last_lr = lambda self: [group["lr"] for group in self.optimizer.param_groups]
    state_dict = lambda self: {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}
    load_state_dict = lambda self, found: vars(self).update(found)


LRScheduler = _LRScheduler = LambdaLR


class StepLR(LambdaLR):
    def __init__(self, optimizer, step_size, gamma=0.1, **more):
        super().__init__(optimizer, lambda epoch: gamma ** (epoch // step_size))


class ExponentialLR(LambdaLR):
    def __init__(self, optimizer, gamma, **more):
        super().__init__(optimizer, lambda epoch: gamma**epoch)


class CosineAnnealingLR(LambdaLR):
    def __init__(self, optimizer, T_max, eta_min=0.0, **more):
        low = eta_min / optimizer.param_groups[0]["lr"]
        super().__init__(optimizer, lambda epoch: low + (1 - low) * (1 + math.cos(math.pi * epoch / T_max)) / 2)


def __getattr__(name):
    raise AttributeError(f"module 'torch.optim.lr_scheduler' has no attribute {name!r}")
