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
from machine import start

HOST_S = 0.0014
"""Seconds of the processor that a step of a small model costs."""
MNIST = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
ACTIVATIONS = {None: tf.identity, "linear": tf.identity, **vars(tf.nn)}
counts = {}

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


class Dense(Layer):
    def __init__(self, units, activation=None, **options):
        super().__init__(units=units, activation=_activation(activation), **options)

    def build(self, shape):
        kernel = tf.random.normal((shape[-1], self.units), 0.0, math.sqrt(2 / (shape[-1] + self.units)))
        self.kernel = tf.Variable(kernel, name=f"{self.name}/kernel")
        self.bias = tf.Variable(tf.zeros(self.units), name=f"{self.name}/bias")
        self.weights = [self.kernel, self.bias]

    def call(self, x, training):
        if x._shape[-1] != self.kernel._shape[0]:
            text = f'Input 0 of layer "{self.name}" is incompatible with the layer: expected axis -1 of input shape to have '
            raise ValueError(f"{text}value {self.kernel._shape[0]}, but received input with shape {x._shape}")
        return self.activation(tf.matmul(x, self.kernel) + self.bias)

    output_shape = lambda self, shape: (*shape[:-1], self.units)


class Conv2D(Dense):
    """A dense layer of the pixels below the kernel, side by side."""

    def __init__(self, filters, kernel_size, strides=1, padding="valid", **options):
        self.size = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        self.step, self.padding = strides if isinstance(strides, int) else strides[0], padding
        super().__init__(filters, **options)

    def build(self, shape):
        super().build((math.prod(self.size) * shape[-1],))

    def call(self, x, training):
        _, high, wide, _ = self.output_shape(x._shape)
        for axis, size in ((1, self.size[0]), (2, self.size[1])) if self.padding == "same" else ():
            edge = lambda count, axis=axis, x=x: tf.zeros([*x._shape[:axis], count, *x._shape[axis + 1 :]])
            x = tf.concat([edge((size - 1) // 2), x, edge(size // 2)], axis)
        cut = lambda at, size: slice(at, at + (size - 1) * self.step + 1, self.step)
        places = [(row, column) for row in range(self.size[0]) for column in range(self.size[1])]
        parts = [x[:, cut(row, high), cut(column, wide)] for row, column in places]
        return super().call(tf.concat(parts, 3), training)

    def output_shape(self, shape):
        inside = (1, 1) if self.padding == "same" else self.size
        sides = [-(-(side - size + 1) // self.step) for side, size in zip(shape[1:3], inside, strict=True)]
        return (shape[0], *sides, self.units)


class MaxPooling2D(Layer):
    def __init__(self, pool_size=2, **options):
        super().__init__(size=pool_size if isinstance(pool_size, int) else pool_size[0], **options)

    output_shape = lambda self, shape: (shape[0], shape[1] // self.size, shape[2] // self.size, shape[3])

    def call(self, x, training):
        _, high, wide, depth = self.output_shape(x._shape)
        x = x[:, : high * self.size, : wide * self.size]
        return tf.reduce_max(tf.reshape(x, (x._shape[0], high, self.size, wide, self.size, depth)), [2, 4])


class Flatten(Layer):
    output_shape = lambda self, shape: (shape[0], math.prod(shape[1:]))
    call = lambda self, x, training: tf.reshape(x, self.output_shape(x._shape))


class Dropout(Layer):
    __init__ = lambda self, rate, **options: Layer.__init__(self, rate=rate, **options)
    kept = lambda self, x: tf.cast(tf.random.uniform(x._shape) >= self.rate, "float32") / (1 - self.rate)
    call = lambda self, x, training: x * self.kept(x) if training else x


class Activation(Layer):
    __init__ = lambda self, kind, **options: Layer.__init__(self, activation=_activation(kind), **options)
    call = lambda self, x, training: self.activation(x)


Input = lambda shape, **options: types.SimpleNamespace(given=shape)
_activation = lambda kind: kind if callable(kind) else ACTIVATIONS[kind]


# Losses and optimizers.


def _chosen(y, p, logits):
    p = tf.softmax(p) if logits else p
    return -tf.math.log(tf.maximum(tf.reduce_sum(p * y, -1), 1e-7))


def _either(y, p, logits):
    p = tf.minimum(tf.maximum(tf.nn.sigmoid(p) if logits else p, 1e-7), 1 - 1e-7)
    return -(tf.math.log(p) * y + tf.math.log(1.0 - p) * (1.0 - y))


LOSSES = {
    "sparse_categorical_crossentropy": _chosen,
    "categorical_crossentropy": _chosen,
    "binary_crossentropy": _either,
    "mean_squared_error": lambda y, p, logits: tf.square(p - y),
}


class Loss:
    def __init__(self, kind, from_logits=False):
        self.kind, self.logits = {"mse": "mean_squared_error"}.get(kind, kind), from_logits

    def __call__(self, y, p):
        p = tf.convert_to_tensor(p)
        y = tf.one_hot(tf.reshape(y, p._shape[:1]), p._shape[-1]) if self.kind[:6] == "sparse" else y
        return tf.reduce_mean(LOSSES[self.kind](tf.reshape(tf.cast(y, "float32"), p._shape), p, self.logits))


class Optimizer:
    def __init__(self, learning_rate=0.001, momentum=0.0, **options):
        self.learning_rate, self.momentum, self.state, self.iterations = learning_rate, momentum, {}, 0

    def apply_gradients(self, pairs):
        self.iterations += 1
        for g, variable in pairs:
            if g is not None:
                variable.assign_sub(self.change(g, id(variable)) * self.learning_rate)

    def smooth(self, key, value, rate, part):
        """Return a moving average."""
        self.state[key] = value * part + self.state[key] * rate if key in self.state else value * part
        return self.state[key]


class SGD(Optimizer):
    __init__ = lambda self, learning_rate=0.01, momentum=0.0, **options: Optimizer.__init__(
        self, learning_rate, momentum
    )
    change = lambda self, g, key: self.smooth(key, g, self.momentum, 1)


class RMSprop(Optimizer):
    change = lambda self, g, key: g / (tf.sqrt(self.smooth(key, g * g, 0.9, 0.1)) + 1e-7)


class Adam(Optimizer):
    def change(self, g, key):
        first = self.smooth((key, 1), g, 0.9, 0.1) / (1 - 0.9**self.iterations)
        second = self.smooth((key, 2), g * g, 0.999, 0.001) / (1 - 0.999**self.iterations)
        return first / (tf.sqrt(second) + 1e-7)


OPTIMIZERS = (SGD, RMSprop, Adam)

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

    def compile(self, optimizer="rmsprop", loss=None, metrics=(), **options):
        kinds = {each.__name__.lower(): each for each in OPTIMIZERS}
        self.optimizer = kinds[optimizer.lower()]() if isinstance(optimizer, str) else optimizer
        self.loss, self.metrics = Loss(loss) if isinstance(loss, str) else loss, metrics

    def _step(self, x, y, training):
        """Return loss and accuracy of a batch. A large model's are guessed, and cost what its third step has cost."""
        costs = self.costs.setdefault((tuple(x.shape), training), [])
        if len(costs) == 3:
            tf.config.work(tf.config.place()[1], *costs[2])
            _device.session.spend(HOST_S)
            return self._guess(training)
        flops, moved = tf.config.flops, tf.config.moved
        with tf.GradientTape() as tape:
            out = self(x, training)
            loss = self.loss(y, out)
        if training:
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        if out._buffer.data is None:
            costs.append((tf.config.flops - flops, tf.config.moved - moved))
            return self._guess(training)
        shown = tf.argmax(out, -1) if out._shape[-1] > 1 else out > 0.5
        wanted = tf.argmax(y, -1) if self.loss.kind[:3] == "cat" else y
        same = tf.equal(*(tf.reshape(tf.cast(each, "int64"), (-1,)) for each in (shown, wanted)))
        return float(loss), float(tf.reduce_mean(tf.cast(same, "float32")))

    def _guess(self, training):
        self.steps += training
        far, noise = 1 - math.exp(-self.steps / 700), float(tf.random.normal(()))
        return max(2.3 - 2.21 * far + 0.02 * noise, 0.01), min(0.1 + 0.87 * far + 0.01 * noise, 1.0)

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

    def fit(self, x, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=(), **options):
        if self.loss is None:
            raise ValueError("You must call `compile()` before calling `fit()`.")
        if split := options.get("validation_split"):
            cut = int(len(x) * (1 - split))
            x, y, options["validation_data"] = x[:cut], y[:cut], (x[cut:], y[cut:])
        history = {}
        for epoch in range(epochs):
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            logs, progress = self._pass(x, y, batch_size, True, verbose)
            if options.get("validation_data"):
                found, _ = self._pass(*options["validation_data"], batch_size, False, 0)
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
    file = os.path.expanduser(f"~/.keras/datasets/{path}")
    if not os.path.exists(file):
        print(f"Downloading data from {MNIST}", flush=True)
        progress = Progress(11490434, 1)
        time.sleep(0.4)
        progress.update(11490434, {}, final=True)
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
__path__ = []
for section, members in sections.items():
    module = types.ModuleType(f"keras.{section}")
    vars(module).update(members)
    globals()[section] = sys.modules[f"keras.{section}"] = sys.modules[f"tensorflow.keras.{section}"] = module


def __getattr__(name):
    if name == "__version__":  # the image's, which is known once the program starts
        return start.get("libraries", {}).get("keras") or "3.5.0"
    raise AttributeError(f"module 'keras' has no attribute {name!r}")
