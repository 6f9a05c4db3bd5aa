"""torch.amp: matrix products in 16 bits."""

from contextlib import ContextDecorator

from torch._types import state


class autocast(ContextDecorator):
    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        name = dtype.name if dtype else "float16" if device_type == "cuda" else "bfloat16"
        self.wanted = (device_type, name) if enabled else None

    def __enter__(self):
        self.before, state.autocast = state.autocast, self.wanted
        return self

    def __exit__(self, *error):
        state.autocast = self.before


class GradScaler:
    def __init__(self, device="cuda", init_scale=65536.0, growth_interval=2000, enabled=True):
        self._scale, self.enabled, self.interval = init_scale if enabled else 1.0, enabled, growth_interval
        self.steps, self.unscaled = 0, False

    scale, get_scale = lambda self, loss: loss * self._scale, lambda self: self._scale
    state_dict = lambda self: {"scale": self._scale, "_growth_tracker": self.steps}
    load_state_dict = lambda self, found: setattr(self, "_scale", found["scale"])

    def unscale_(self, optimizer):
        for each in optimizer.parameters():
            if each.grad is not None and each.grad._known():
                each.grad = each.grad / self._scale
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        return optimizer.step()

    def update(self):
        self.steps, self.unscaled = self.steps + 1, False
        if self.enabled and self.steps % self.interval == 0:
            self._scale *= 2
