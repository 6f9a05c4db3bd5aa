"""The Mersenne Twister as numpy's RandomState and torch's generator seed it and draw from it, bit for bit."""

import math
import random

from _arrays import MAX_COMPUTED


class Twister:
    """A generator that C++'s std::mt19937 and numpy's legacy seeding agree on."""

    def __init__(self, seed=None):
        self.spare = None
        self.twister = random.Random()
        if seed is not None:
            self.seed(seed)

    def seed(self, seed):
        words, self.spare = [seed & 0xFFFFFFFF], None
        for at in range(1, 624):
            words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + at) & 0xFFFFFFFF)
        self.twister.setstate((3, (*words, 624), None))

    def bits(self):
        return self.twister.getrandbits(32)

    def double(self):
        """Return what numpy's random_sample does."""
        return self.twister.random()

    def gauss(self):
        """Return what numpy's legacy standard_normal does: by Marsaglia's polar method."""
        if self.spare is not None:
            found, self.spare = self.spare, None
            return found
        while True:
            x, y = 2 * self.double() - 1, 2 * self.double() - 1
            square = x * x + y * y
            if 0 < square < 1:
                factor = math.sqrt(-2 * math.log(square) / square)
                self.spare = factor * x
                return factor * y

    def below(self, count):
        """Return a number below another as numpy does: masked, and drawn again where it is too large."""
        mask = (1 << (count - 1).bit_length()) - 1
        while count > 1:
            value = (self.bits() if mask < 1 << 32 else self.bits() << 32 | self.bits()) & mask
            if value < count:
                return value
        return 0

    def single(self):
        """Return what torch.rand does for 32 bits."""
        return (self.bits() & 0xFFFFFF) * 2.0**-24

    def normals(self, count):
        """Return what torch.randn does: Box and Muller's transformation, of 16 numbers at once where there are so many."""
        if count < 16:
            return [self._normal() for _ in range(count)]
        values = [self.single() for _ in range(count)]
        for at in range(0, count - 15, 16):
            values[at : at + 16] = transformed(values[at : at + 16])
        if count % 16:
            values[-16:] = transformed([self.single() for _ in range(16)])
        return values

    def _normal(self):
        if self.spare is not None:
            found, self.spare = self.spare, None
            return found
        first, second = (((self.bits() << 32 | self.bits()) & (1 << 53) - 1) * 2.0**-53 for _ in range(2))
        radius, angle = math.sqrt(-2 * math.log1p(-second)), 2 * math.pi * first
        self.spare = radius * math.sin(angle)
        return radius * math.cos(angle)


def transformed(sixteen):
    pairs = [
        (math.sqrt(-2 * math.log(1 - u)), 2 * math.pi * v) for u, v in zip(sixteen[:8], sixteen[8:], strict=True)
    ]
    return [r * math.cos(a) for r, a in pairs] + [r * math.sin(a) for r, a in pairs]


def drawn(base, shape, dtype, twister, function, mean, std):
    """Return an array of what a function draws from a twister; a large one draws what is looked at."""
    if math.prod(shape) <= MAX_COMPUTED:
        return base._new(shape, dtype, [function(twister) for _ in range(math.prod(shape))])
    own, key = Twister(), twister.bits()

    def draw(place):
        own.twister.seed(key ^ place * 2654435761)
        own.spare = None
        return function(own)

    return base._guess(shape, dtype, mean, std, draw)
