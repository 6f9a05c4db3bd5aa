"""Keras 3 on TensorFlow: sequential models of torch's layers, training and its log lines (keras/src/utils/progbar.py)."""

import functools
import math
import os
import sys
import time
import types

import _device
import numpy as np
import tensorflow as tf
import torch
from _elements import NAMES, accepting, bind, error, missing, version
from torch import nn
from torch.nn import functional as F

HOST_S, DOWNLOAD = 0.0014, 25e6
"""Seconds of the processor that a step of a small model costs, and bytes per second from the internet."""
MNIST, MNIST_SIZE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz", 11490434
ACTIVATIONS = {None: tf.identity, "linear": tf.identity, **vars(tf.nn)}
counts = {}


class Layer:
    """A layer, which makes torch's when it first sees an input."""

    inner, activation = None, None
    parameters = lambda self: [*self.inner.parameters()] if self.inner else []
    count_params = lambda self: sum(each.numel() for each in self.parameters())
    get_weights = lambda self: [each.detach().cpu().numpy() for each in self.parameters()]

    @accepting(NAMES["ignored"]["Layer"])
    def __init__(self, *args, name=None, input_shape=None, **options):
        kind = type(self).__name__.lower()
        count = counts[kind] = counts.get(kind, -1) + 1
        self.name, self.given = name or (f"{kind}_{count}" if count else kind), input_shape
        self.__dict__.update(bind(type(self).__name__, self.about, args, options))
        self.activation = self.activation if callable(self.activation) else ACTIVATIONS[self.activation]

    def __call__(self, x, training=False):
        x = tf.cast(x, "float32")
        self.inner = self.inner or self.make(x._shape[-1]).to(tf.config.place()[1])
        wanted = getattr(self.inner, "in_features", x._shape[-1])
        if x._shape[-1] != wanted:
            raise error("keras.input", name=self.name, wanted=wanted, shape=x._shape)
        return self.activation(self.inner.train(training)(x))


LAYERS = {
    "Dense": lambda layer, size: nn.Linear(size, layer.units),
    "Dropout": lambda layer, size: nn.Dropout(layer.rate),
    "Flatten": lambda layer, size: nn.Flatten(),
}
LAYERS = {name: type(name, (Layer,), {"about": NAMES["keras"][name], "make": make}) for name, make in LAYERS.items()}


# Losses and optimizers: torch's.

_floats = lambda y, p: tf.reshape(tf.cast(y, "float32"), p._shape)
LOSSES = {
    "sparse_categorical_crossentropy": lambda y, p, logits: F.nll_loss(
        p.log_softmax() if logits else tf.maximum(p, 1e-7).log(), tf.cast(tf.reshape(y, p._shape[:1]), "int64")),
    "binary_crossentropy": lambda y, p, logits: (
        F.binary_cross_entropy_with_logits if logits else F.binary_cross_entropy)(p, _floats(y, p)),
    "mean_squared_error": lambda y, p, logits: F.mse_loss(p, _floats(y, p)),
}  # fmt: skip
LOSSES["mse"] = LOSSES["mean_squared_error"]


class Loss:
    def __init__(self, kind, from_logits=False):
        self.function, self.logits = LOSSES[kind], from_logits

    __call__ = lambda self, y, p: self.function(tf.convert_to_tensor(y), tf.convert_to_tensor(p), self.logits)


class Optimizer:
    """An optimizer that is torch's, made when it first sees the parameters."""

    inner = None

    def __init__(self, *args, **options):
        self.__dict__.update(bind(type(self).__name__, self.about, args, options))

    def step(self, parameters):
        if self.inner is None:
            self.inner = self.kind(parameters, **self.options())
        self.inner.param_groups[0]["lr"] = self.learning_rate
        self.inner.step()
        self.inner.zero_grad()


OPTIONS = {
    "SGD": lambda self: {"momentum": self.momentum, "nesterov": self.nesterov},
    "Adam": lambda self: {"betas": (self.beta_1, self.beta_2), "eps": self.epsilon},
    "RMSprop": lambda self: {"alpha": self.rho, "eps": self.epsilon},
}
KINDS = {
    name: type(
        name, (Optimizer,), {"about": NAMES["keras"][name], "kind": getattr(torch.optim, name), "options": options}
    )
    for name, options in OPTIONS.items()
}

# Training.


def _told(count, verbose, began, values):
    """Print the line of Keras' progress bar when a pass is done; ``verbose`` as fit has it."""
    took = time.time() - began
    each = took / count
    unit = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 else f"{each * 1e6:.0f}us"
    told = "".join(f" - {key}: {value:.4{'f' if value > 1e-3 else 'e'}}" for key, value in values.items())
    if verbose == 2:
        print(f"{count}/{count} - {took:.0f}s - {unit}/step{told}", flush=True)
    elif verbose:
        bar = f"\x1b[1m{count}/{count}\x1b[0m \x1b[32m{'━' * 20}\x1b[0m \x1b[1m{took:.0f}s\x1b[0m"
        print(f"{bar} {unit}/step{told}", flush=True)


def _batches(x, y, size):
    if y is None:  # it is in batches already
        return x
    x, y, size = np.asarray(x), np.asarray(y), size or 32
    return [(x[at : at + size], y[at : at + size]) for at in range(0, len(x), size)]


class Sequential:
    loss = None

    def __init__(self, layers=(), name="sequential"):
        self.layers, self.name, self.costs, self.shape = [], name, {}, None
        for each in layers:
            self.add(each)

    def add(self, layer):
        if layer.given and not self.layers:
            self.shape = (None, *layer.given)
        self.layers += [layer] if isinstance(layer, Layer) else []

    def __call__(self, x, training=False):
        return functools.reduce(lambda x, layer: layer(x, training), self.layers, x)

    count_params = lambda self: sum(each.count_params() for each in self.layers)
    get_weights = lambda self: [each for layer in self.layers for each in layer.get_weights()]

    @accepting(NAMES["ignored"]["Sequential.compile"])
    def compile(self, optimizer="rmsprop", loss=None, metrics=()):
        kinds = {name.lower(): kind for name, kind in KINDS.items()}
        self.optimizer = kinds[optimizer.lower()]() if isinstance(optimizer, str) else optimizer
        self.loss, self.metrics = Loss(loss) if isinstance(loss, str) else loss, metrics

    def _step(self, x, y, training):
        """Return loss and accuracy of a batch. A large model's third step is taken to cost what the next ones do."""
        costs, session = self.costs.setdefault((tuple(x.shape), training), []), _device.session
        if len(costs) == 3:
            with torch._types.device_errors(x._failed):
                session.work(torch._types.gpu_of(x._device), *costs[2])
            session.spend(HOST_S)
            F.course.advance(training)
            return F.course.loss(math.log(self.classes), "classes"), F.course.accuracy(self.classes)
        flops, moved = session.flops, session.moved
        with torch._tensor.set_grad(training):
            out = self(x, training)
            loss = self.loss(y, out)
        if training:
            loss.backward()
            self.optimizer.step([each for layer in self.layers for each in layer.parameters()])
        self.classes = max(out._shape[-1], 2)
        if not out._known():
            costs.append((session.flops - flops, session.moved - moved))
            return float(loss), F.course.accuracy(self.classes)
        shown = tf.argmax(out, -1) if out._shape[-1] > 1 else out > 0.5
        same = tf.equal(*(tf.reshape(tf.cast(each, "int64"), (-1,)) for each in (shown, y)))
        return float(loss), float(tf.reduce_mean(tf.cast(same, "float32")))

    def _pass(self, x, y, batch_size, training):
        """Go through a data set once; returns what is logged of it."""
        loss = right = samples = 0
        for part, wanted in _batches(x, y, batch_size):
            found, count = self._step(tf.convert_to_tensor(part), tf.convert_to_tensor(wanted), training), len(part)
            loss, right, samples = loss + found[0] * count, right + found[1] * count, samples + count
        return ({"accuracy": right / samples} if self.metrics else {}) | {"loss": loss / samples}

    @accepting(NAMES["ignored"]["Sequential.fit"])
    def fit(self, x, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=(), validation_split=0.0,
            validation_data=None):  # fmt: skip
        if self.loss is None:
            raise error("keras.compile")
        if validation_split:
            cut = int(len(x) * (1 - validation_split))
            x, y, validation_data = x[:cut], y[:cut], (x[cut:], y[cut:])
        history = {}
        for epoch in range(epochs):
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            began, logs = time.time(), self._pass(x, y, batch_size, True)
            if validation_data:
                found = self._pass(*validation_data, batch_size, False)
                logs |= {f"val_{key}": value for key, value in found.items()}
            _told(len(_batches(x, y, batch_size)), verbose, began, logs)
            for key, value in logs.items():
                history.setdefault(key, []).append(value)
            for each in callbacks or ():
                each.on_epoch_end(epoch, logs)
        return types.SimpleNamespace(history=history, epoch=[*range(epochs)])

    def evaluate(self, x, y=None, batch_size=None, verbose="auto"):
        began, logs = time.time(), self._pass(x, y, batch_size, False)
        _told(len(_batches(x, y, batch_size)), verbose, began, logs)
        return [logs["loss"], logs["accuracy"]] if self.metrics else logs["loss"]

    def predict(self, x, batch_size=None, verbose="auto"):
        began = time.time()
        with torch.no_grad():
            found = [self(part).numpy() for part, _ in _batches(x, x, batch_size)]
        _told(len(found), verbose, began, {})
        return np.concatenate(found)

    def summary(self):
        """Print the table of keras/src/utils/summary_utils.py."""
        shape, rows = self.shape, []
        for each in self.layers:
            shape = (None, *each(tf.zeros((1, *shape[1:])))._shape[1:])
            rows.append((f"{each.name} ({type(each).__name__})", str(shape), f"{each.count_params():,}"))
        line = lambda left, middle, right, fill: left + middle.join(fill * (n + 2) for n in (31, 22, 13)) + right
        row = lambda bar, cells: "{0} {1:<31.31} {0} {2:<22} {0} {3:>13} {0}".format(bar, *cells)
        head = row("┃", ("Layer (type)", "Output Shape", "Param #"))
        print(f'Model: "{self.name}"', line(*"┏┳┓━"), head, line(*"┡╇┩━"), sep="\n")
        print(f"\n{line(*'├┼┤─')}\n".join(row("│", each) for each in rows), line(*"└┴┘─"), sep="\n")
        count = self.count_params()
        size = f"{count * 4 / 1024:.2f} KB" if count < 1 << 18 else f"{count * 4 / 2**20:.2f} MB"
        print(f" Total params: {count:,} ({size})\n Trainable params: {count:,} ({size})")
        print(" Non-trainable params: 0 (0.00 B)")


def load_data(path="mnist.npz"):
    """Return random digits of MNIST's size, downloaded when they are first asked for (keras/src/utils/file_utils.py)."""
    file = os.path.expanduser(f"~/.keras/datasets/{path}")
    if not os.path.exists(file):
        print(f"Downloading data from {MNIST}", flush=True)
        began = time.time()
        _device.session.spend(MNIST_SIZE / DOWNLOAD, 0.2)
        _told(MNIST_SIZE, 1, began, {})
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as made:
            made.write(bytes(4096))
    draw = np.random.default_rng(0).integers
    make = lambda n: (draw(0, 256, (n, 28, 28)).astype("uint8"), draw(0, 10, (n,)).astype("uint8"))
    return make(60000), make(10000)


Input = lambda shape, batch_size=None, dtype=None, name=None: types.SimpleNamespace(given=shape)
sections = {
    "layers": {"Input": Input, **LAYERS},
    "models": {"Sequential": Sequential},
    "optimizers": KINDS,
    "losses": {kind.title().replace("_", ""): functools.partial(Loss, kind) for kind in LOSSES if len(kind) > 3},
    "callbacks": {"Callback": type("Callback", (), {"on_epoch_end": lambda self, epoch, logs=None: None})},
    "datasets": {"mnist": types.SimpleNamespace(load_data=load_data)},
    "utils": {"set_random_seed": tf.random.set_seed},
}
tf.keras = sys.modules["tensorflow.keras"] = sys.modules[__name__]
for section, members in sections.items():
    sys.modules[f"tensorflow.keras.{section}"] = torch._types.module(f"keras.{section}", **members)
__getattr__ = missing("keras", __version__=lambda: version("keras"))
