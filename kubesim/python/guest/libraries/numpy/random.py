"""numpy.random: RandomState as NumPy draws with a seed, and Generator."""

import math

from _twister import Twister, drawn

import numpy


class RandomState:
    """The legacy generator: with a seed it draws NumPy's own numbers, bit for bit."""

    def __init__(self, seed=None):
        self.seed(seed)

    def seed(self, seed=None):
        self._twister = Twister(seed)

    def _draw(self, size, kind, function, mean, std):
        """Return one number, or an array."""
        if size is None:
            return function(self._twister)
        shape = (size,) if isinstance(size, int) else tuple(size)
        return drawn(numpy._first, shape, kind, self._twister, function, mean, std)

    def uniform(self, low=0.0, high=1.0, size=None):
        mean, std = (low + high) / 2, (high - low) / math.sqrt(12)
        return self._draw(size, "float64", lambda twister: low + (high - low) * twister.double(), mean, std)

    def normal(self, loc=0.0, scale=1.0, size=None):
        return self._draw(size, "float64", lambda twister: loc + scale * twister.gauss(), loc, scale)

    random = lambda self, size=None: self.uniform(0.0, 1.0, size)
    rand, randn = (
        lambda self, *shape: self.random(shape or None),
        lambda self, *shape: self.normal(0, 1, shape or None),
    )

    def randint(self, low, high=None, size=None, dtype=int):
        low, high = (0, low) if high is None else (low, high)
        if low >= high:
            raise ValueError("low >= high")
        kind, std = numpy.dtype(dtype).name, math.sqrt(((high - low) ** 2 - 1) / 12)
        return self._draw(size, kind, lambda twister: low + twister.below(high - low), (low + high - 1) / 2, std)

    def permutation(self, x):
        order = list(range(x if isinstance(x, int) else len(x)))
        for at in range(len(order) - 1, 0, -1):
            other = self._twister.below(at + 1)
            order[at], order[other] = order[other], order[at]
        return numpy.array(order, dtype=int) if isinstance(x, int) else numpy.asarray(x)[order]

    def shuffle(self, x):
        x[:] = list(self.permutation(x)) if isinstance(x, list) else self.permutation(x)

    def choice(self, a, size=None, replace=True):
        count = a if isinstance(a, int) else len(a)
        if replace:
            found = self.randint(0, count, size)
        else:
            found = self.permutation(count)[: math.prod(size) if isinstance(size, tuple) else size]
        return found if isinstance(a, int) else numpy.asarray(a)[found]


class Generator(RandomState):
    """What default_rng returns."""

    def integers(self, low, high=None, size=None, dtype=int, endpoint=False):
        low, high = (0, low) if high is None else (low, high)
        return self.randint(low, high + endpoint, size, dtype)


def default_rng(seed=None):
    return Generator(None if seed is None else seed ^ 0x5EED)


_global = RandomState()
for each in "seed rand randn random normal uniform randint shuffle permutation choice".split():
    globals()[each] = lambda *args, each=each, **more: getattr(_global, each)(*args, **more)
