"""torch.nn.functional. What large layers compute is estimated, and their losses follow the course of a training."""

import math

from _elements import error, pair

from torch._tensor import Tensor, together
from torch._types import WORDS, state, work

course = state.course
relu, silu, sigmoid, tanh = (
    lambda input, inplace=False, *, name=name: getattr(input, name)() for name in ("relu", "silu", "sigmoid", "tanh")
)
gelu, identity, flatten = lambda input, approximate="none": input.gelu(), lambda input: input, Tensor.flatten
softmax, log_softmax = (
    lambda input, dim=-1, dtype=None, *, name=name: getattr(input, name)(dim) for name in ("softmax", "log_softmax")
)


def estimate(name, parents, shape, flops, mean=0.0, std=0.6):
    """Return the result of a layer of which only the shape and the time are computed."""
    x = parents[0]
    dtype = state.autocast[1] if state.autocast and flops and x.is_cuda == (state.autocast[0] == "cuda") else x._dtype
    made = x._guess(tuple(shape), dtype, mean, std)
    work(x._device, flops, 0, half=made.itemsize == 2)
    return x._step(made, name, tuple(each for each in parents if each is not None), None, flops)


def linear(input, weight, bias=None):
    found = input @ weight.transpose(-2, -1)
    return found + bias.to(found.dtype) if bias is not None else found


def embedding(input, weight, padding_idx=None):
    shape = *input._shape, weight._shape[1]
    if not weight._known() or math.prod(shape) > 1 << 16:
        return estimate("Embedding", (weight,), shape, 0, std=1.0)
    if any(not 0 <= at < weight._shape[0] for at in input._flat()):
        raise IndexError("index out of range in self")
    return weight[input]


def _normalized(x, mean, variance, weight, bias, eps, shape):
    found = (x - mean) / (variance + eps).sqrt()
    found = found if weight is None else found * weight.reshape(shape)
    return found if bias is None else found + bias.reshape(shape)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = tuple(normalized_shape)
    if input._shape[-len(shape) :] != shape:
        inner = "".join(f", {size}" for size in shape)
        raise input._error("layer-norm", shape=shape, inner=inner, got=input._shape)
    dims = tuple(range(-len(shape), 0))
    return _normalized(input, input.mean(dims, True), input._reduced("var0", dims, True), weight, bias, eps, shape)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    shape, dims = (1, -1) + (1,) * (input.ndim - 2), tuple(at for at in range(input.ndim) if at != 1)
    mean, variance = running_mean.reshape(shape), running_var.reshape(shape)
    if training:
        for kept, name in ((running_mean, "mean"), (running_var, "var1")):
            kept.copy_(kept * (1 - momentum) + input.detach()._reduced(name, dims) * momentum)
        mean, variance = input.mean(dims, True), input._reduced("var0", dims, True)
    return _normalized(input, mean, variance, weight, bias, eps, shape)


def dropout(input, p=0.5, training=True, inplace=False):
    if not training or not p:
        return input
    return input * (state.source.draw(input, input._shape, "float32", "uniform", 0.0, 1.0) >= p) / (1 - p)


def _sides(x, kernel, stride, padding):
    """Return the height and width of what a window finds that goes over images."""
    sides = zip(x._shape[2:], *map(pair, (kernel, stride, padding)), strict=True)
    return [(size + 2 * around - wide) // step + 1 for size, wide, step, around in sides]


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if input._shape[1] != weight._shape[1] * groups:
        shapes = {"weight": list(weight._shape), "input": list(input._shape), "wanted": weight._shape[1] * groups}
        raise input._error("channels", groups=groups, got=input._shape[1], **shapes)
    if input._dtype != weight._dtype and not state.autocast:
        raise input._error("types", a=WORDS[input._dtype], b=WORDS[weight._dtype])
    together(input, weight)
    kernel = [step * (size - 1) + 1 for size, step in zip(weight._shape[2:], pair(dilation), strict=True)]
    padding = {"same": tuple(size // 2 for size in kernel), "valid": 0}.get(padding, padding)
    shape = (input._shape[0], weight._shape[0], *_sides(input, kernel, stride, padding))
    return estimate(
        "Convolution", (input, weight, bias), shape, 2.0 * math.prod(shape) * math.prod(weight._shape[1:])
    )


def _pooled(name, share):
    def pool(input, kernel_size, stride=None, padding=0, ceil_mode=False):
        mean, std = input._statistics()
        shape = (*input._shape[:2], *_sides(input, kernel_size, stride or kernel_size, padding))
        return estimate(name, (input,), shape, 0, mean + std * share, std)

    return pool


max_pool2d, avg_pool2d = _pooled("MaxPool2DWithIndices", 0.5), _pooled("AvgPool2D", 0.0)
adaptive_avg_pool2d = lambda input, output_size: estimate(
    "AvgPool2D", (input,), (*input._shape[:2], *pair(output_size)), 0, *input._statistics()
)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    shape, flops = (*query._shape[:-1], value._shape[-1]), 4.0 * query.numel() * key._shape[-2]
    return estimate("ScaledDotProduct", (query, key, value), shape, flops)


# Losses.

reduction_of = lambda loss, how: loss if how == "none" else loss.sum() if how == "sum" else loss.mean()


def estimated_loss(x, initial, kind):
    """Return the loss of an output of which only statistics are known."""
    found = x._new((), "float32", [course.loss(initial, kind)])
    return x._step(found, "NllLoss" if kind == "classes" else "MseLoss", (x,), None)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    dim = min(input.ndim - 1, 1)
    if target._dtype == "int64" and target._shape != input._shape[:dim] + input._shape[dim + 1 :]:
        raise error("torch.batch", a=input._shape[0], b=target._shape[0])
    logs = input.float().log_softmax(dim) if input._known() else input.float()
    return nll_loss(logs, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean", smoothing=0.0):
    dim = min(input.ndim - 1, 1)
    if not input._known():
        return estimated_loss(input, math.log(input._shape[dim]), "classes")
    if target.is_floating_point():
        return -(input * target).sum() / input._shape[0]
    if bad := [at for at in target._flat() if not 0 <= at < input._shape[dim] and at != ignore_index]:
        raise IndexError(f"Target {bad[0]} is out of bounds.")
    used = (target != ignore_index).float()
    at = (target * used.long()).unsqueeze(dim)
    counts = used if weight is None else weight[at.squeeze(dim)] * used
    loss = -(input.gather(dim, at).squeeze(dim) * (1 - smoothing) + input.mean(dim) * smoothing) * counts
    return loss.sum() / counts.sum() if reduction == "mean" else reduction_of(loss, reduction)


def _pointwise(function, initial=None):
    def loss(input, target, reduction="mean"):
        if not input._known() and (input._node or course.progress):
            mean, std = target._statistics()
            return estimated_loss(input, initial or (mean**2 + std**2) or 1.0, "values")
        return reduction_of(function(input, target), reduction)

    return loss


mse_loss, l1_loss = _pointwise(lambda x, y: (x - y) ** 2), _pointwise(lambda x, y: (x - y).abs())
binary_cross_entropy_with_logits = _pointwise(lambda x, y: x.relu() - x * y + ((-x.abs()).exp() + 1).log(), 0.693)
binary_cross_entropy = _pointwise(
    lambda p, y: -(y * p.clamp(1e-12).log() + (1 - y) * (1 - p).clamp(1e-12).log()), 0.693
)
