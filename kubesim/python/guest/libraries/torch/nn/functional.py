"""torch.nn.functional. Losses of large models follow the course of a training, which the optimizers advance."""

import math
import random
import zlib

import _device

import torch
from torch._autograd import record
from torch._ops import drawn
from torch._types import state, work

HALF_LIFE, FLOOR = {"classes": 90.0, "values": 60.0}, {"classes": 0.06, "values": 0.03}
MAX_RATIO = 30.0
"""A learning rate so many times the usual one makes a training diverge."""
for each in ("relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "log_softmax"):
    globals()[each] = lambda x, dim=None, each=each, **more: getattr(x, each)(*(() if dim is None else (dim,)))


class Course:
    """The progress of this process' training, from the steps taken and their learning rate; no two alike."""

    progress, heat, random, speed = 0.0, 0, None, 1.0

    def advance(self, ratio):
        self.progress += min(ratio, 3.0) ** 0.8 if ratio > 0 else 0.0
        self.heat += ratio > MAX_RATIO

    def noise(self, spread):
        if self.random is None:
            seed = (_device.session.about or _device.session.facts())["seed"]
            self.random, self.speed = random.Random(seed), 0.85 + 0.3 * zlib.crc32(seed.encode()) / (1 << 32)
        return self.random.gauss(1, spread)

    def left(self, kind):
        return (1 + self.speed * self.progress / HALF_LIFE[kind]) ** -0.75

    def loss(self, initial, kind):
        noise = self.noise(0.03 if self.progress else 0.01)
        if self.heat:
            return math.nan if self.heat > 12 else initial * 4.0**self.heat
        return (FLOOR[kind] + (1 - FLOOR[kind]) * self.left(kind)) * initial * noise

    def accuracy(self, classes):
        best = 0.985 if classes <= 100 else 0.8
        found = 1 / classes + (best - 1 / classes) * (1 - self.left("classes"))
        return min(max(found * self.noise(0.01), 0.0), 1.0)


course = state.course = Course()
reduction_of = lambda loss, how: loss if how == "none" else loss.sum() if how == "sum" else loss.mean()


def estimated(x, initial, kind):
    """Return the loss of an output of which only statistics are known."""
    found = x._new((), "float32", [course.loss(initial, kind)])
    return record(found, "NllLoss" if kind == "classes" else "MseLoss", (x,), None)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    classes = input._shape[1] if input.ndim > 1 else input._shape[0]
    rows = input._shape[:1] + input._shape[2:] if input.ndim > 1 else ()
    if target._dtype == "int64" and target._shape != rows:
        raise ValueError(
            f"Expected input batch_size ({input._shape[0]}) to match target batch_size ({target._shape[0]})."
        )
    if not input._known():
        return estimated(input.float(), math.log(classes), "classes")
    if target._dtype == "int64" and any(not 0 <= at < classes and at != ignore_index for at in target._flat()):
        bad = next(at for at in target._flat() if not 0 <= at < classes)
        raise IndexError(f"Target {bad} is out of bounds.")
    return nll_loss(input.float().log_softmax(1 if input.ndim > 1 else 0), target, reduction=reduction)


def nll_loss(input, target, weight=None, reduction="mean"):
    if not input._known():
        return estimated(input, math.log(input._shape[1]), "classes")
    if target.is_floating_point():
        return -(input * target).sum() / input._shape[0]
    chosen = input.gather(1, target.unsqueeze(1)) if input.ndim > 1 else input[target]
    return reduction_of(-chosen.reshape(target._shape), reduction)


def _pointwise(name, function):
    def loss(input, target, reduction="mean", **more):
        if not input._known() and not input._buffer.draw:
            mean, std = target._statistics()
            return estimated(input, (mean**2 + std**2) or 1.0 if name == "mse_loss" else 0.693, "values")
        return reduction_of(function(input, target), reduction)

    loss.__name__ = name
    return loss


mse_loss = _pointwise("mse_loss", lambda x, y: (x - y) ** 2)
l1_loss = _pointwise("l1_loss", lambda x, y: (x - y).abs())
binary_cross_entropy = _pointwise(
    "binary_cross_entropy", lambda x, y: -(y * x.log().clamp(min=-100) + (1 - y) * (1 - x).log().clamp(min=-100))
)
binary_cross_entropy_with_logits = _pointwise("binary_cross_entropy_with_logits", lambda x, y: x.softplus() - x * y)


def linear(input, weight, bias=None):
    found = input @ weight.t()
    return found + bias.to(found.dtype) if bias is not None else found


def embedding(input, weight, padding_idx=None):
    if not weight._known() or input.numel() * weight._shape[1] > 1 << 16:
        made = weight._guess((*input._shape, weight._shape[1]), weight._dtype, 0.0, 1.0)
        return record(made, "Embedding", (weight,), None)
    return weight[input]


def dropout(input, p=0.5, training=True, inplace=False):
    if not training or not p:
        return input
    return input * (drawn("uniform", input._shape, "float32", input.device, 0.0, 1.0) >= p) / (1 - p)


def _padded(x, height, width):
    for dim, size in ((2, height), (3, width)):
        side = x._guess((*x._shape[:dim], size, *x._shape[dim + 1 :]), x._dtype, 0.0)
        x = torch.cat([side, x, side], dim) if size else x
    return x


def _normalized(x, dims, weight, bias, eps, shape):
    mean, var = x.mean(dims, True), x._reduced("var0", dims, True)
    found = (x - mean) / (var + eps).sqrt()
    return found * weight.reshape(shape) + bias.reshape(shape) if weight is not None else found


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    return _normalized(input, dims, weight, bias, eps, tuple(normalized_shape))


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    shape = (1, -1) + (1,) * (input.ndim - 2)
    dims = tuple(at for at in range(input.ndim) if at != 1)
    if not training:
        found = (input - running_mean.reshape(shape)) / (running_var.reshape(shape) + eps).sqrt()
        return found * weight.reshape(shape) + bias.reshape(shape)
    with torch.no_grad():
        bare = input.detach()
        running_mean.copy_(running_mean * (1 - momentum) + bare.mean(dims) * momentum)
        count = max(bare.numel() // bare._shape[1], 2)
        spread = bare._reduced("var0", dims) * (momentum * count / (count - 1))
        running_var.copy_(running_var * (1 - momentum) + spread)
    return _normalized(input, dims, weight, bias, eps, shape)


def _windows(x, kernel, stride, padding):
    """Return the elements below a window as a last dimension, and the height and width of the result."""
    (kh, kw), (sh, sw), (ph, pw) = (
        (each, each) if isinstance(each, int) else each for each in (kernel, stride, padding)
    )
    height, width = (x._shape[2] + 2 * ph - kh) // sh + 1, (x._shape[3] + 2 * pw - kw) // sw + 1
    if not x._known() or x._shape[0] * x._shape[1] * height * width * kh * kw > 1 << 16:
        return None, height, width
    x = _padded(x, ph, pw)
    tops, lefts = range(0, height * sh, sh), range(0, width * sw, sw)
    rows = [[top + row for row in range(kh) for _ in range(kw)] for top in tops for _ in lefts]
    columns = [[left + column for _ in range(kh) for column in range(kw)] for _ in tops for left in lefts]
    return x[:, :, torch.tensor(rows), torch.tensor(columns)], height, width


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if input._shape[1] != weight._shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight._shape)}, expected input{list(input._shape)} to have "
            f"{weight._shape[1] * groups} channels, but got {input._shape[1]} channels instead"
        )
    out, batch = weight._shape[0], input._shape[0]
    kernel = weight._shape[2:]
    padding = kernel[0] // 2 if padding == "same" else padding
    found, height, width = _windows(input, kernel, stride, padding)
    flops = 2.0 * batch * out * height * width * math.prod(weight._shape[1:])
    if found is None or flops > 1 << 18 or groups > 1 or not weight._known():
        name = state.autocast[1] if state.autocast else input._dtype
        made = input._guess((batch, out, height, width), name, 0.0, 0.6)
        work(input.device, flops, 0, half=made.itemsize == 2)
        return record(made, "Convolution", (input, weight, *([bias] if bias is not None else [])), None, flops)
    found = found.permute(0, 2, 1, 3).reshape(batch, height * width, -1) @ weight.reshape(out, -1).t()
    found = found + bias if bias is not None else found
    return found.permute(0, 2, 1).reshape(batch, out, height, width)


def _pooled(name):
    def pool(input, kernel_size, stride=None, padding=0, **more):
        found, height, width = _windows(input, kernel_size, stride or kernel_size, padding)
        if found is None:
            mean, std = input._statistics()
            made = input._guess((*input._shape[:2], height, width), input._dtype, mean + std / 2, std)
            return record(made, "MaxPool2DWithIndices", (input,), None)
        found = found.max(-1)[0] if name == "max" else found.mean(-1)
        return found.reshape(*input._shape[:2], height, width)

    return pool


max_pool2d, avg_pool2d = _pooled("max"), _pooled("avg")


def adaptive_avg_pool2d(input, output_size):
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    return avg_pool2d(input, (input._shape[2] // height, input._shape[3] // width))


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query._shape[-1])
    if is_causal:
        attn_mask = torch.tril(torch.ones(scores._shape[-2:], device=query.device)).bool()
    if attn_mask is not None and attn_mask._dtype == "bool":
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return dropout(scores.softmax(-1), dropout_p) @ value.to(scores.dtype)
