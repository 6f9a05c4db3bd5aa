"""numpy.random: RandomState as NumPy draws with a seed, and Generator."""

import math

from _arrays import MAX_COMPUTED
from _twister import Twister

import numpy


class RandomState:
    """The legacy generator: with a seed it draws NumPy's own numbers, bit for bit."""

    def __init__(self, seed=None):
        self._twister = Twister(seed)

    def seed(self, seed=None):
        self._twister = Twister(seed)

    def _draw(self, size, kind, function, mean, std):
        """Return one number, or an array: a large one draws what is looked at."""
        if size is None:
            return function()
        shape = (size,) if isinstance(size, int) else tuple(size)
        if math.prod(shape) <= MAX_COMPUTED:
            return numpy._first._new(shape, kind, [function() for _ in range(math.prod(shape))])
        twister, key = Twister(), self._twister.bits()

        def draw(place):
            twister.twister.seed(key ^ place * 2654435761)
            twister.spare = None
            before, self._twister = self._twister, twister
            try:
                return function()
            finally:
                self._twister = before

        return numpy._first._guess(shape, kind, mean, std, draw)

    def random_sample(self, size=None):
        return self._draw(size, "float64", lambda: self._twister.double(), 0.5, math.sqrt(1 / 12))

    random = sample = random_sample

    def rand(self, *shape):
        return self.random_sample(shape or None)

    def normal(self, loc=0.0, scale=1.0, size=None):
        return self._draw(size, "float64", lambda: loc + scale * self._twister.gauss(), loc, scale)

    def standard_normal(self, size=None):
        return self.normal(0.0, 1.0, size)

    def randn(self, *shape):
        return self.normal(0.0, 1.0, shape or None)

    def uniform(self, low=0.0, high=1.0, size=None):
        mean, std = (low + high) / 2, (high - low) / math.sqrt(12)
        return self._draw(size, "float64", lambda: low + (high - low) * self._twister.double(), mean, std)

    def randint(self, low, high=None, size=None, dtype=int):
        low, high = (0, low) if high is None else (low, high)
        if low >= high:
            raise ValueError("low >= high")
        kind, std = numpy.dtype(dtype).name, math.sqrt(((high - low) ** 2 - 1) / 12)
        return self._draw(size, kind, lambda: low + self._twister.below(high - low), (low + high - 1) / 2, std)

    def exponential(self, scale=1.0, size=None):
        return self._draw(size, "float64", lambda: -scale * math.log(1 - self._twister.double()), scale, scale)

    def binomial(self, n, p, size=None):
        draw = lambda: sum(self._twister.double() < p for _ in range(n))
        return self._draw(size, "int64", draw, n * p, math.sqrt(n * p * (1 - p)))

    def shuffle(self, x):
        order = self.permutation(len(x)).tolist()
        x[:] = [x[at] for at in order] if isinstance(x, list) else x[order]

    def permutation(self, x):
        order = list(range(x if isinstance(x, int) else len(x)))
        for at in range(len(order) - 1, 0, -1):
            other = self._twister.below(at + 1)
            order[at], order[other] = order[other], order[at]
        return numpy.array(order, dtype=int) if isinstance(x, int) else numpy.asarray(x)[order]

    def choice(self, a, size=None, replace=True, p=None):
        count = a if isinstance(a, int) else len(a)
        if p is not None:
            edges = numpy.cumsum(p).tolist()
            draw = lambda: next((at for at, edge in enumerate(edges) if at_most < edge), count - 1) if (
                at_most := self._twister.double()) >= 0 else 0  # fmt: skip
            found = self._draw(size, "int64", draw, count / 2, count / 4)
        elif replace:
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
NAMES = """seed rand randn random random_sample sample normal standard_normal uniform randint exponential binomial shuffle
permutation choice"""
for each in NAMES.split():
    globals()[each] = lambda *args, each=each, **more: getattr(_global, each)(*args, **more)


def __getattr__(name):
    raise AttributeError(f"module 'numpy.random' has no attribute {name!r}")
