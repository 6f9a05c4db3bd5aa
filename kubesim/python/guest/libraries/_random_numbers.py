"""Sources of random numbers below numpy, torch and TensorFlow."""

import math
import os
import random

from _arrays import MAX_COMPUTED, keys


class Source:
    """Source of random numbers: without a seed, others in each program."""

    source = None

    def seed(self, number=None):
        number = int.from_bytes(os.urandom(8), "little") if number is None else number
        self.source = random.Random(number)
        keys.seed(number)

    def draw(self, base, shape, dtype, kind, a, b):
        """Draw numbers between a and b, with mean a and deviation b ("normal"), or whole ones below b."""
        if self.source is None:
            self.seed()
        random, gauss, span = self.source.random, self.source.gauss, b - a
        draw, mean, std = {  # one call for all: a layer of a large model has tens of thousands of biases
            "uniform": (lambda places: [a + span * random() for _ in places], (a + b) / 2, abs(span) / math.sqrt(12)),
            "normal": (lambda places: [gauss(a, b) for _ in places], a, b),
            "whole": (
                lambda places: [self.source.randrange(a, b) for _ in places],
                (a + b - 1) / 2,
                span / math.sqrt(12),
            ),
        }[kind]
        if shape is None:
            return draw(range(1))[0]
        if (count := math.prod(shape)) > MAX_COMPUTED:
            return base._guess(shape, dtype, mean, std)
        return base._new(shape, dtype, draw(range(count)))
