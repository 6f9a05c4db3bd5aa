"""Keras 3 on TensorFlow: sequential models, their layers, training and its log lines (keras/src/utils/progbar.py)."""

import functools
import math
import os
import re
import sys
import time
import types

import _device
import numpy as np
import tensorflow as tf
import torch
from _arrays import accepting
from machine import start
from torch.nn import functional as F

HOST_S, DOWNLOAD = 0.0014, 25e6
"""Seconds of the processor that a step of a small model costs, and bytes per second from the internet."""
MNIST = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
ACTIVATIONS = {None: tf.identity, "linear": tf.identity, **vars(tf.nn)}
counts = {}
_activation = lambda kind: kind if callable(kind) else ACTIVATIONS[kind]
_pair = lambda value: (value, value) if isinstance(value, int) else tuple(value)

# Layers.


class Layer:
    built = False

    def __init__(self, name=None, input_shape=None, **options):
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        count = counts[word] = counts.get(word, -1) + 1
        self.name, self.given, self.weights = name or (f"{word}_{count}" if count else word), input_shape, []
        self.__dict__.update(options)

    def __call__(self, x, training=False):
        x = tf.cast(x, "float32")
        self.build_once(x._shape)
        return self.call(x, training)

    def build_once(self, shape):
        if not self.built:
            self.build(shape)
            self.built = True

    build, output_shape = lambda self, shape: None, lambda self, shape: shape


def _weighted(self, shape, count):
    """Make the kernel and the bias of a layer."""
    kernel = tf.random.normal(shape, 0.0, math.sqrt(2 / (math.prod(shape[:-1]) + count)))
    self.weights = [
        tf.Variable(kernel, name=f"{self.name}/kernel"),
        tf.Variable(tf.zeros(count), name=f"{self.name}/bias"),
    ]
    self.kernel, self.bias = self.weights


class Dense(Layer):
    @accepting("kernel_initializer bias_initializer kernel_regularizer dtype")
    def __init__(self, units, activation=None, name=None, input_shape=None):
        super().__init__(name, input_shape, units=units, activation=_activation(activation))

    build = lambda self, shape: _weighted(self, (shape[-1], self.units), self.units)
    output_shape = lambda self, shape: (*shape[:-1], self.units)

    def call(self, x, training):
        if x._shape[-1] != self.kernel._shape[0]:
            text = f'Input 0 of layer "{self.name}" is incompatible with the layer: expected axis -1 of input shape to have '
            raise ValueError(f"{text}value {self.kernel._shape[0]}, but received input with shape {x._shape}")
        return self.activation(tf.matmul(x, self.kernel) + self.bias)


class Conv2D(Layer):
    @accepting("kernel_initializer bias_initializer kernel_regularizer dtype")
    def __init__(
        self, filters, kernel_size, strides=1, padding="valid", activation=None, name=None, input_shape=None
    ):
        super().__init__(name, input_shape, units=filters, size=_pair(kernel_size), step=_pair(strides))
        self.padding, self.activation = padding, _activation(activation)

    build = lambda self, shape: _weighted(self, (*self.size, shape[-1], self.units), self.units)

    def output_shape(self, shape):
        inside = (1, 1) if self.padding == "same" else self.size
        sides = [
            -(-(side - size + 1) // step) for side, size, step in zip(shape[1:3], inside, self.step, strict=True)
        ]
        return (shape[0], *sides, self.units)

    def call(self, x, training):
        shape = self.output_shape(x._shape)
        flops = 2.0 * math.prod(shape) * math.prod(self.kernel._shape[:-1])
        return self.activation(F.estimate("Convolution", (x, *self.weights), shape, flops))


class MaxPooling2D(Layer):
    @accepting("dtype")
    def __init__(self, pool_size=2, name=None, input_shape=None):
        super().__init__(name, input_shape, size=_pair(pool_size))

    output_shape = lambda self, shape: (shape[0], shape[1] // self.size[0], shape[2] // self.size[1], shape[3])

    def call(self, x, training):
        mean, std = x._statistics()
        return F.estimate("MaxPool", (x,), self.output_shape(x._shape), 0, mean + std / 2, std)


class Flatten(Layer):
    output_shape = lambda self, shape: (shape[0], math.prod(shape[1:]))
    call = lambda self, x, training: tf.reshape(x, self.output_shape(x._shape))


class Dropout(Layer):
    def __init__(self, rate, name=None, seed=None):
        super().__init__(name, rate=rate)

    call = lambda self, x, training: F.dropout(x, self.rate, training)


class Activation(Layer):
    def __init__(self, activation, name=None):
        super().__init__(name, call=lambda x, training: _activation(activation)(x))


def Input(shape, batch_size=None, dtype=None, name=None):
    return types.SimpleNamespace(given=shape)


# Losses and optimizers: torch's.


def _categories(y, p, logits):
    return F.nll_loss(p.log_softmax() if logits else tf.maximum(p, 1e-7).log(), y)


LOSSES = {
    "sparse_categorical_crossentropy": lambda y, p, logits: _categories(tf.cast(tf.reshape(y, p._shape[:1]), "int64"), p, logits),
    "categorical_crossentropy": lambda y, p, logits: _categories(tf.cast(y, "float32"), p, logits),
    "binary_crossentropy": lambda y, p, logits: (F.binary_cross_entropy_with_logits if logits else F.binary_cross_entropy)(
        p, tf.reshape(tf.cast(y, "float32"), p._shape)),
    "mean_squared_error": lambda y, p, logits: F.mse_loss(p, tf.reshape(tf.cast(y, "float32"), p._shape)),
}  # fmt: skip


class Loss:
    def __init__(self, kind, from_logits=False):
        self.kind, self.logits = {"mse": "mean_squared_error"}.get(kind, kind), from_logits
        self.function = LOSSES[self.kind]

    __call__ = lambda self, y, p: self.function(tf.convert_to_tensor(y), tf.convert_to_tensor(p), self.logits)


class SGD:
    """An optimizer that is torch's of the same name, made when it first sees the variables."""

    inner, made = torch.optim.SGD, None

    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False):
        self.learning_rate, self.options = learning_rate, {"momentum": momentum, "nesterov": nesterov}

    def apply_gradients(self, pairs):
        pairs = [(g, variable) for g, variable in pairs if g is not None]
        self.made = self.made or self.inner(
            [variable for _, variable in pairs], lr=self.learning_rate, **self.options
        )
        self.made.param_groups[0]["lr"] = self.learning_rate
        for variable, g in ((variable, g) for g, variable in pairs):
            variable.grad = g
        self.made.step()
        self.made.zero_grad()


class Adam(SGD):
    inner = torch.optim.Adam

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        self.learning_rate, self.options = learning_rate, {"betas": (beta_1, beta_2), "eps": epsilon}


class RMSprop(Adam):
    inner = torch.optim.RMSprop

    def __init__(self, learning_rate=0.001, rho=0.9, epsilon=1e-7):
        self.learning_rate, self.options = learning_rate, {"alpha": rho, "eps": epsilon}


OPTIMIZERS = (SGD, Adam, RMSprop)

# Training.


class Progress:
    """Keras' progress bar; ``verbose`` as fit has it."""

    def __init__(self, target, verbose):
        self.target, self.verbose = target, 1 if verbose == "auto" else verbose
        self.began, self.shown, self.text = time.time(), 0.0, ""

    def update(self, step, values, final=False):
        now = time.time()
        if self.verbose == 0 or not final and (self.verbose == 2 or now - self.shown < 0.05):
            return
        self.shown, each = now, (now - self.began) / step
        unit = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 else f"{each * 1e6:.0f}us"
        told = "".join(f" - {key}: {value:.4{'f' if value > 1e-3 else 'e'}}" for key, value in values.items())
        count, told = f"{step:{len(str(self.target))}d}/{self.target}", f"{unit}/step{told}"
        if self.verbose == 2:
            print(f"{count} - {now - self.began:.0f}s - {told}", flush=True)
            return
        left, done = int(each * (self.target - step)), 20 * step // self.target
        took = f"{now - self.began:.0f}s" if final else f"{left // 60}:{left % 60:02d}" if left > 60 else f"{left}s"
        bar = f"\x1b[32m{'━' * done}\x1b[0m" * bool(done) + f"\x1b[37m{'━' * (20 - done)}\x1b[0m"
        back, self.text = "\b" * len(self.text), f"{count} {'━' * 20} {took} {told}"
        padding = " " * (len(back) - len(self.text))
        line = f"\x1b[1m{count}\x1b[0m {bar} \x1b[1m{took}\x1b[0m {told}{padding}"
        print(f"{back}\r{line}", end="\n" * final, flush=True)


class Sequential:
    loss = None

    def __init__(self, layers=(), name="sequential"):
        self.layers, self.name, self.steps, self.costs, self.shape = [], name, 0, {}, None
        for each in layers:
            self.add(each)

    def add(self, layer):
        if layer.given and not self.layers:
            self.shape = (None, *layer.given)
        self.layers += [layer] if isinstance(layer, Layer) else []

    def __call__(self, x, training=False):
        return functools.reduce(lambda x, layer: layer(x, training), self.layers, x)

    weights = trainable_variables = trainable_weights = property(
        lambda self: [w for each in self.layers for w in each.weights]
    )

    @accepting("run_eagerly jit_compile steps_per_execution")
    def compile(self, optimizer="rmsprop", loss=None, metrics=()):
        kinds = {each.__name__.lower(): each for each in OPTIMIZERS}
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
        with tf.GradientTape() as tape:
            out = self(x, training)
            loss = self.loss(y, out)
        if training:
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.classes = max(out._shape[-1], 2)
        if not out._known():
            costs.append((session.flops - flops, session.moved - moved))
            return float(loss), F.course.accuracy(self.classes)
        shown = tf.argmax(out, -1) if out._shape[-1] > 1 else out > 0.5
        wanted = tf.argmax(y, -1) if self.loss.kind[:3] == "cat" else y
        same = tf.equal(*(tf.reshape(tf.cast(each, "int64"), (-1,)) for each in (shown, wanted)))
        return float(loss), float(tf.reduce_mean(tf.cast(same, "float32")))

    def _pass(self, x, y, batch_size, training, verbose):
        """Go through a data set once; returns the log and the progress that it has shown."""
        batches = x if y is None else _batches(x, y, batch_size)
        progress, loss, right, samples = Progress(len(batches), verbose), 0, 0, 0
        for step, (part, wanted) in enumerate(batches, 1):
            found, count = self._step(tf.convert_to_tensor(part), tf.convert_to_tensor(wanted), training), len(part)
            loss, right, samples = loss + found[0] * count, right + found[1] * count, samples + count
            logs = ({"accuracy": right / samples} if self.metrics else {}) | {"loss": loss / samples}
            progress.update(step, logs)
        return logs, progress

    @accepting("shuffle class_weight sample_weight workers")
    def fit(
        self,
        x,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=(),
        validation_split=0.0,
        validation_data=None,
    ):
        if self.loss is None:
            raise ValueError("You must call `compile()` before calling `fit()`.")
        if validation_split:
            cut = int(len(x) * (1 - validation_split))
            x, y, validation_data = x[:cut], y[:cut], (x[cut:], y[cut:])
        history = {}
        for epoch in range(epochs):
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            logs, progress = self._pass(x, y, batch_size, True, verbose)
            if validation_data:
                found, _ = self._pass(*validation_data, batch_size, False, 0)
                logs |= {f"val_{key}": value for key, value in found.items()}
            progress.update(progress.target, logs, final=True)
            for key, value in logs.items():
                history.setdefault(key, []).append(value)
            for each in callbacks or ():
                each.on_epoch_end(epoch, logs)
        return types.SimpleNamespace(history=history, epoch=[*range(epochs)])

    def evaluate(self, x, y=None, batch_size=None, verbose="auto"):
        logs, progress = self._pass(x, y, batch_size, False, verbose)
        progress.update(progress.target, logs, final=True)
        return [logs["loss"], logs["accuracy"]] if self.metrics else logs["loss"]

    def predict(self, x, batch_size=None, verbose="auto"):
        batches = _batches(x, x, batch_size)
        progress, found = Progress(len(batches), verbose), [self(part).numpy() for part, _ in batches]
        progress.update(len(batches), {}, final=True)
        return np.concatenate(found)

    def count_params(self):
        return sum(math.prod(w._shape) for w in self.weights)

    def summary(self):
        """Print the table of keras/src/utils/summary_utils.py."""
        shape, rows = self.shape, []
        for each in self.layers:
            each.build_once(shape)
            shape, count = each.output_shape(shape), sum(math.prod(w._shape) for w in each.weights)
            rows.append((f"{each.name} ({type(each).__name__})", str(shape), f"{count:,}"))
        line = lambda left, middle, right, fill: left + middle.join(fill * (n + 2) for n in (31, 22, 13)) + right
        row = lambda bar, cells: "{0} {1:<31.31} {0} {2:<22} {0} {3:>13} {0}".format(bar, *cells)
        head = row("┃", ("Layer (type)", "Output Shape", "Param #"))
        print(f'Model: "{self.name}"', line(*"┏┳┓━"), head, line(*"┡╇┩━"), sep="\n")
        print(f"\n{line(*'├┼┤─')}\n".join(row("│", each) for each in rows), line(*"└┴┘─"), sep="\n")
        count = self.count_params()
        size = f"{count * 4 / 1024:.2f} KB" if count < 1 << 18 else f"{count * 4 / 2**20:.2f} MB"
        print(f" Total params: {count:,} ({size})\n Trainable params: {count:,} ({size})")
        print(" Non-trainable params: 0 (0.00 B)")


def _batches(x, y, size):
    x, y, size = np.asarray(x), np.asarray(y), size or 32
    return [(x[at : at + size], y[at : at + size]) for at in range(0, len(x), size)]


def load_data(path="mnist.npz"):
    """Return random digits of MNIST's size, downloaded when they are first asked for (keras/src/utils/file_utils.py)."""
    file, size = os.path.expanduser(f"~/.keras/datasets/{path}"), 11490434
    if not os.path.exists(file):
        print(f"Downloading data from {MNIST}", flush=True)
        progress = Progress(size, 1)
        _device.session.spend(size / DOWNLOAD, 0.2)
        progress.update(size, {}, final=True)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as made:
            made.write(bytes(4096))
    draw = np.random.default_rng(0).integers
    make = lambda n: (draw(0, 256, (n, 28, 28)).astype("uint8"), draw(0, 10, (n,)).astype("uint8"))
    return make(60000), make(10000)


LAYERS = (Layer, Dense, Conv2D, MaxPooling2D, Flatten, Dropout, Activation)
sections = {
    "layers": {"Input": Input, **{each.__name__: each for each in LAYERS}},
    "models": {"Sequential": Sequential},
    "optimizers": {each.__name__: each for each in OPTIMIZERS},
    "losses": {kind.title().replace("_", ""): functools.partial(Loss, kind) for kind in LOSSES},
    "callbacks": {"Callback": type("Callback", (), {"on_epoch_end": lambda self, epoch, logs=None: None})},
    "datasets": {"mnist": types.SimpleNamespace(load_data=load_data)},
    "utils": {"set_random_seed": tf.random.set_seed},
}
tf.keras = sys.modules["tensorflow.keras"] = sys.modules[__name__]
for section, members in sections.items():
    sys.modules[f"tensorflow.keras.{section}"] = torch._types.module(f"keras.{section}", **members)


def __getattr__(name):
    if name == "__version__":  # the image's, which is known once the program starts
        return start.get("libraries", {}).get("keras") or "3.5.0"
    raise AttributeError(f"module 'keras' has no attribute {name!r}")
