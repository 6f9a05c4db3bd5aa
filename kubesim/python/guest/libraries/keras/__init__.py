"""Keras 3 on TensorFlow: sequential models, their layers, training and its log lines (keras/src/utils/progbar.py)."""

import math
import os
import sys
import time
import types

import _device
import numpy as np
import tensorflow as tf
from machine import start

HOST_S = 0.0014
"""Seconds of the processor that a step of a small model costs."""
SECTIONS = "layers models optimizers losses metrics datasets callbacks utils activations backend"
counts = {}


class Layer:
    trainable, built = True, False

    def __init__(self, name=None, input_shape=None, **options):
        word = (
            "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__)
            .strip("_")
            .replace("2_d", "2d")
        )
        count = counts[word] = counts.get(word, -1) + 1
        self.name, self.given, self.weights = name or f"{word}_{count}" * bool(count) or word, input_shape, []
        self.__dict__.update(options)

    def add_weight(self, shape, deviation, name):
        value = tf.random.normal(shape, 0.0, deviation) if deviation else tf.zeros(shape)
        self.weights.append(tf.Variable(value, name=f"{self.name}/{name}"))
        return self.weights[-1]

    def __call__(self, x, training=False):
        x = tf.convert_to_tensor(x)
        if not self.built:
            self.build(x._shape)
            self.built = True
        return self.call(tf.cast(x, "float32"), training)

    build, output_shape = lambda self, shape: None, lambda self, shape: shape


def activated(name):
    return {
        None: lambda x: x, "linear": lambda x: x, "softmax": tf.softmax, "relu": tf.nn.relu, "sigmoid": tf.nn.sigmoid,
        "tanh": tf.nn.tanh,
    }.get(name, name)  # fmt: skip


class Dense(Layer):
    def __init__(self, units, activation=None, **options):
        super().__init__(units=units, activation=activation, **options)

    def build(self, shape):
        self.kernel = self.add_weight((shape[-1], self.units), math.sqrt(2 / (shape[-1] + self.units)), "kernel")
        self.bias = self.add_weight((self.units,), 0, "bias")

    def call(self, x, training):
        if x._shape[-1] != self.kernel._shape[0]:
            text = f'Input 0 of layer "{self.name}" is incompatible with the layer: expected axis -1 of input shape to have '
            raise ValueError(f"{text}value {self.kernel._shape[0]}, but received input with shape {x._shape}")
        return activated(self.activation)(tf.matmul(x, self.kernel) + self.bias)

    output_shape = lambda self, shape: (*shape[:-1], self.units)


class Conv2D(Layer):
    def __init__(self, filters, kernel_size, strides=1, padding="valid", activation=None, **options):
        size = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        step = strides if isinstance(strides, int) else strides[0]
        super().__init__(filters=filters, size=size, step=step, padding=padding, activation=activation, **options)

    def build(self, shape):
        inner = math.prod(self.size) * shape[-1]
        self.kernel = self.add_weight((inner, self.filters), math.sqrt(2 / (inner + self.filters)), "kernel")
        self.bias = self.add_weight((self.filters,), 0, "bias")

    def call(self, x, training):
        """Multiply the pixels below the kernel, side by side, with the kernel."""
        if self.padding == "same":
            for axis, size in ((1, self.size[0]), (2, self.size[1])):
                edges = [list(x._shape), list(x._shape)]
                edges[0][axis], edges[1][axis] = (size - 1) // 2, size // 2
                x = tf.concat([tf.zeros(edges[0]), x, tf.zeros(edges[1])][not edges[0][axis] :], axis)
        _, high, wide, _ = self.output_shape(x._shape, padded=True)
        ends = [(row, column) for row in range(self.size[0]) for column in range(self.size[1])]
        cut = lambda at, size: slice(at, at + (size - 1) * self.step + 1, self.step)
        parts = tf.concat([x[:, cut(row, high), cut(column, wide), :] for row, column in ends], 3)
        return activated(self.activation)(tf.matmul(parts, self.kernel) + self.bias)

    def output_shape(self, shape, padded=False):
        inside = (1, 1) if self.padding == "same" and not padded else self.size
        sides = [-(-(side - size + 1) // self.step) for side, size in zip(shape[1:3], inside, strict=True)]
        return (shape[0], *sides, self.filters)


class MaxPooling2D(Layer):
    def __init__(self, pool_size=2, **options):
        super().__init__(size=pool_size if isinstance(pool_size, int) else pool_size[0], **options)

    output_shape = lambda self, shape: (shape[0], shape[1] // self.size, shape[2] // self.size, shape[3])

    def call(self, x, training):
        _, high, wide, depth = self.output_shape(x._shape)
        x = x[:, : high * self.size, : wide * self.size, :]
        return tf.reduce_max(tf.reshape(x, (x._shape[0], high, self.size, wide, self.size, depth)), [2, 4])


class Flatten(Layer):
    output_shape = lambda self, shape: (shape[0], math.prod(shape[1:]))
    call = lambda self, x, training: tf.reshape(x, self.output_shape(x._shape))


class Dropout(Layer):
    __init__ = lambda self, rate, **options: Layer.__init__(self, rate=rate, **options)

    def call(self, x, training):
        if not training or not self.rate:
            return x
        return x * tf.cast(tf.random.uniform(x._shape) >= self.rate, "float32") / (1 - self.rate)


class Activation(Layer):
    __init__ = lambda self, activation, **options: Layer.__init__(self, activation=activation, **options)
    call = lambda self, x, training: activated(self.activation)(x)


class InputLayer(Layer):
    call = lambda self, x, training: x


class GlobalAveragePooling2D(Layer):
    output_shape = lambda self, shape: (shape[0], shape[3])
    call = lambda self, x, training: tf.reduce_mean(x, [1, 2])


def Input(shape=None, **options):
    return InputLayer(input_shape=shape)


# Losses and optimizers.


def _picked(y, p, logits):
    p = tf.softmax(p) if logits else p
    chosen = tf.reduce_sum(p * y, -1)
    return tf.math.log(tf.maximum(chosen, 1e-7)) * -1.0


def _binary(y, p, logits):
    p = tf.minimum(tf.maximum(tf.nn.sigmoid(p) if logits else p, 1e-7), 1 - 1e-7)
    return (tf.math.log(p) * y + tf.math.log(1.0 - p) * (1.0 - y)) * -1.0


LOSSES = {
    "sparse_categorical_crossentropy": lambda y, p, logits: _picked(
        tf.one_hot(tf.reshape(y, (y._shape[0],)), p._shape[-1]), p, logits
    ),
    "categorical_crossentropy": _picked,
    "binary_crossentropy": _binary,
    "mse": lambda y, p, logits: tf.square(p - y),
    "mae": lambda y, p, logits: tf.abs(p - y),
}
LOSSES |= {"mean_squared_error": LOSSES["mse"], "mean_absolute_error": LOSSES["mae"]}


class Loss:
    """A loss by its name."""

    def __init__(self, kind, from_logits=False):
        self.kind, self.logits = kind, from_logits

    def __call__(self, y, p):
        p, y = tf.convert_to_tensor(p), tf.convert_to_tensor(y)
        if self.kind[:6] != "sparse":
            y = tf.reshape(tf.cast(y, "float32"), p._shape)
        return tf.reduce_mean(LOSSES[self.kind](y, p, self.logits))


class Optimizer:
    def __init__(self, learning_rate=None, **options):
        self.learning_rate = self.usual if learning_rate is None else learning_rate
        self.options, self.state, self.iterations = options, {}, 0

    usual = 0.001

    def apply_gradients(self, pairs):
        self.iterations += 1
        for g, variable in pairs:
            if g is not None:
                variable.assign_sub(self.change(g, self.state.setdefault(id(variable), {})) * self.learning_rate)

    def smooth(self, state, name, value, rate):
        old = state.get(name)
        state[name] = value * (1 - rate) if old is None else old * rate + value * (1 - rate)
        return state[name]


class SGD(Optimizer):
    usual = 0.01

    def change(self, g, state):
        momentum = self.options.get("momentum", 0.0)
        state["m"] = g if not momentum or "m" not in state else state["m"] * momentum + g
        return state["m"]


class RMSprop(Optimizer):
    change = lambda self, g, state: g / (tf.sqrt(self.smooth(state, "v", g * g, 0.9)) + 1e-7)


class Adam(Optimizer):
    def change(self, g, state):
        first, second = self.smooth(state, "m", g, 0.9), self.smooth(state, "v", g * g, 0.999)
        first, second = first / (1 - 0.9**self.iterations), second / (1 - 0.999**self.iterations)
        return first / (tf.sqrt(second) + 1e-7)


class AdamW(Adam):
    pass


# Training.


class Progress:
    """Keras' progress bar; ``verbose`` as fit has it."""

    def __init__(self, target, verbose):
        self.target, self.verbose = target, verbose
        self.began, self.first, self.shown, self.width = time.time(), None, 0.0, 0

    def update(self, step, values, final=False):
        now = time.time()
        self.first = self.first or now
        if self.verbose not in (1, 2) or not final and (self.verbose == 2 or now - self.shown < 0.05):
            return
        self.shown = now
        each = (now - self.first) / (step - 1) if step > 1 else now - self.began
        unit = (
            f"{each:.0f}s"
            if each >= 1 or each == 0
            else f"{each * 1e3:.0f}ms"
            if each >= 1e-3
            else f"{each * 1e6:.0f}us"
        )
        told = f"{unit}/step" + "".join(
            f" - {k}: {v:.4f}" if v > 1e-3 else f" - {k}: {v:.4e}" for k, v in values.items()
        )
        count = f"{step:{len(str(self.target))}d}/{self.target}"
        if self.verbose == 2:
            print(f"{count} - {now - self.began:.0f}s - {told}", flush=True)
            return
        done = 20 * step // self.target
        bar = (
            f"\x1b[1m{count}\x1b[0m "
            + (f"\x1b[32m{'━' * done}\x1b[0m" if done else "")
            + f"\x1b[37m{'━' * (20 - done)}\x1b[0m"
        )
        left = int(each * (self.target - step))
        took = f"{now - self.began:.0f}s" if final else f"{left // 60}:{left % 60:02d}" if left > 60 else f"{left}s"
        text = f"{bar} \x1b[1m{took}\x1b[0m {told}"
        width = len(count) + 22 + len(took) + 1 + len(told)
        end = " " * max(self.width - width, 0) + "\n" * final
        print("\b" * self.width + "\r" + text + end, end="", flush=True)
        self.width = width


class Sequential:
    def __init__(self, layers=(), name="sequential"):
        self.layers, self.name, self.metrics_, self.loss = [], name, [], None
        self.steps, self.costs = 0, {}
        for each in layers:
            self.add(each)

    def add(self, layer):
        if isinstance(layer, InputLayer) or layer.given and not self.layers:
            self.shape = (None, *layer.given)
            self.layers += [] if isinstance(layer, InputLayer) else [layer]
            return
        self.layers.append(layer)

    def __call__(self, x, training=False):
        for each in self.layers:
            x = each(x, training)
        return x

    trainable_variables = trainable_weights = weights = property(
        lambda self: [w for each in self.layers for w in each.weights]
    )

    def compile(self, optimizer="rmsprop", loss=None, metrics=(), **options):
        kinds = {"adam": Adam, "sgd": SGD, "rmsprop": RMSprop, "adamw": AdamW}
        self.optimizer = kinds[optimizer.lower()]() if isinstance(optimizer, str) else optimizer
        self.loss, self.metrics_ = Loss(loss) if isinstance(loss, str) else loss, list(metrics or ())

    def _step(self, x, y, training):
        """Return loss and accuracy of a batch. A large model's are guessed, and cost what its third step has cost."""
        key = (tuple(x.shape), training)
        if len(self.costs.get(key, ())) == 3:
            tf.work(tf.context.place()[1], *self.costs[key][2])
            _device.session.spend(HOST_S)
            return self._guess(training)
        before = tf.context.flops, tf.context.moved
        with tf.GradientTape() as tape:
            out = self(x, training)
            loss = self.loss(y, out)
        if training:
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        if out._buffer.data is None:
            spent = tf.context.flops - before[0], tf.context.moved - before[1]
            self.costs.setdefault(key, []).append(spent)
            return self._guess(training)
        many = out._shape[-1] > 1
        shown = tf.argmax(out, -1) if many else tf.cast(out > 0.5, "int64")
        wanted = tf.cast(y, "int64") if "sparse" in self.loss.kind or not many else tf.argmax(y, -1)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.reshape(shown, (-1,)), tf.reshape(wanted, (-1,))), "float32"))
        return float(loss), float(right)

    def _guess(self, training):
        self.steps += training
        far, noise = 1 - math.exp(-self.steps / 700), tf.generator().normal(0, 1)
        return max(2.3 * (1 - far) + 0.09 * far + 0.02 * noise, 0.01), min(0.1 + 0.87 * far + 0.01 * noise, 1.0)

    def _pass(self, batches, training, progress):
        loss = right = samples = 0
        for step, (x, y) in enumerate(batches(), 1):
            count = x.shape[0]
            values = self._step(tf.convert_to_tensor(x), tf.convert_to_tensor(y), training)
            loss, right, samples = loss + values[0] * count, right + values[1] * count, samples + count
            logs = {"accuracy": right / samples} if self.metrics_ else {}
            logs["loss"] = loss / samples
            progress.update(step, logs)
        return logs

    def fit(
        self, x, y=None, epochs=1, batch_size=None, verbose="auto", validation_data=None, validation_split=0.0, **more
    ):
        if self.loss is None:
            raise ValueError("You must call `compile()` before calling `fit()`.")
        verbose, history = 1 if verbose == "auto" else verbose, {}
        if validation_split:
            cut = int(len(x) * (1 - validation_split))
            x, y, validation_data = x[:cut], y[:cut], (x[cut:], y[cut:])
        batches, count = _batches(x, y, batch_size)
        for epoch in range(epochs):
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            progress = Progress(count, verbose)
            logs = self._pass(batches, True, progress)
            if validation_data:
                found = self._pass(_batches(*validation_data, batch_size)[0], False, Progress(1, 0))
                logs |= {f"val_{key}": value for key, value in found.items()}
            progress.update(count, logs, final=True)
            for key, value in logs.items():
                history.setdefault(key, []).append(value)
            for each in more.get("callbacks") or ():
                each.on_epoch_end(epoch, logs)
        return types.SimpleNamespace(history=history, epoch=list(range(epochs)))

    def evaluate(self, x, y=None, batch_size=None, verbose="auto"):
        batches, count = _batches(x, y, batch_size)
        progress = Progress(count, 1 if verbose == "auto" else verbose)
        logs = self._pass(batches, False, progress)
        progress.update(count, logs, final=True)
        return [logs["loss"], logs["accuracy"]] if self.metrics_ else logs["loss"]

    def predict(self, x, batch_size=None, verbose="auto"):
        batches, count = _batches(x, x, batch_size)
        progress, found = Progress(count, 1 if verbose == "auto" else verbose), []
        for step, (part, _) in enumerate(batches(), 1):
            found.append(self(part).numpy())
            progress.update(step, {}, final=step == count)
        return np.concatenate(found)

    def count_params(self):
        return sum(math.prod(w._shape) for w in self.weights)

    def summary(self):
        """Print the table of keras/src/utils/summary_utils.py."""
        shape, rows = self.shape, []
        for each in self.layers:
            if not each.built:
                each.build(shape)
                each.built = True
            shape = each.output_shape(shape)
            rows.append(
                (
                    f"{each.name} ({type(each).__name__})",
                    str(shape),
                    f"{sum(math.prod(w._shape) for w in each.weights):,}",
                )
            )
        sizes = (31, 22, 13)
        line = lambda ends, fill: ends[0] + ends[1].join(fill * (n + 2) for n in sizes) + ends[2]
        row = lambda bar, cells: f"{bar} {cells[0][:31]:<31} {bar} {cells[1]:<22} {bar} {cells[2]:>13} {bar}"
        print(f'Model: "{self.name}"\n{line("┏┳┓", "━")}\n{row("┃", ("Layer (type)", "Output Shape", "Param #"))}')
        print(
            line("┡╇┩", "━")
            + "\n"
            + f"\n{line('├┼┤', '─')}\n".join(row("│", each) for each in rows)
            + f"\n{line('└┴┘', '─')}"
        )
        count = self.count_params()
        size = f"{count * 4 / 1024:.2f} KB" if count < 1 << 18 else f"{count * 4 / 2**20:.2f} MB"
        print(
            f" Total params: {count:,} ({size})\n Trainable params: {count:,} ({size})\n Non-trainable params: 0 (0.00 B)"
        )


def _batches(x, y, size):
    """Return what makes the batches of arrays, or of a data set, and how many they are."""
    if y is None:
        return lambda: iter(x), len(x)
    x, y, size = np.asarray(x), np.asarray(y), size or 32
    return lambda: ((x[at : at + size], y[at : at + size]) for at in range(0, len(x), size)), -(-len(x) // size)


def load_data(path="mnist.npz"):
    """Return random digits of MNIST's size, downloaded when they are first asked for (keras/src/utils/file_utils.py)."""
    folder = f"{os.path.expanduser('~')}/.keras/datasets"
    url = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
    if not os.path.exists(f"{folder}/{path}"):
        print(f"Downloading data from {url}", flush=True)
        progress = Progress(11490434, 1)
        time.sleep(0.4)
        progress.update(11490434, {}, final=True)
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{path}", "wb") as file:
            file.write(bytes(4096))
    rng = np.random.default_rng(0)
    draw = lambda count: (
        rng.integers(0, 256, (count, 28, 28)).astype("uint8"),
        rng.integers(0, 10, (count,)).astype("uint8"),
    )
    return draw(60000), draw(10000)


def _named(kind):
    return type(
        kind, (Loss,), {"__init__": lambda self, from_logits=False: Loss.__init__(self, words[kind], from_logits)}
    )


words = {"SparseCategoricalCrossentropy": "sparse_categorical_crossentropy", "CategoricalCrossentropy": "categorical_crossentropy",
         "BinaryCrossentropy": "binary_crossentropy", "MeanSquaredError": "mse"}  # fmt: skip
contents = {
    "layers": [Layer, Dense, Conv2D, MaxPooling2D, Flatten, Dropout, Activation, InputLayer, GlobalAveragePooling2D, Input],
    "models": [Sequential], "optimizers": [SGD, Adam, AdamW, RMSprop], "losses": [*map(_named, words)],
}  # fmt: skip
here, __path__ = sys.modules[__name__], []
for section in SECTIONS.split():
    module = types.ModuleType(f"keras.{section}")
    for member in contents.get(section, ()):
        setattr(module, member.__name__, member)
    setattr(here, section, module)
    sys.modules[f"keras.{section}"] = sys.modules[f"tensorflow.keras.{section}"] = module
datasets.mnist = types.SimpleNamespace(load_data=load_data)  # noqa: F821
utils.set_random_seed = tf.random.set_seed  # noqa: F821
callbacks.Callback = type("Callback", (), {"on_epoch_end": lambda self, epoch, logs=None: None})  # noqa: F821
sys.modules["tensorflow.keras"] = tf.keras = here


def __getattr__(name):
    if name == "__version__":
        return start.get("libraries", {}).get("keras") or "3.5.0"
    raise AttributeError(f"module 'keras' has no attribute {name!r}")
