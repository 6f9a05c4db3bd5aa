"""torch.nn."""

import copy
import math
from collections import OrderedDict

import torch
from torch._ops import drawn
from torch._ops import module as fileless
from torch._tensor import Tensor
from torch._types import state
from torch.nn import functional as F


class Parameter(Tensor):
    __slots__ = ()

    def __new__(cls, data=None, requires_grad=True):
        made = data.detach()
        made.__class__, made._wants = cls, requires_grad
        return made

    __init__ = lambda self, data=None, requires_grad=True: None


_pair = lambda value: (value, value) if isinstance(value, int) else tuple(value)
PLACES = ("_parameters", "_buffers", "_modules")


class Module:
    """A part of a model, with its parameters, buffers and parts."""

    training = True

    def __init__(self):
        for name in PLACES:
            self.__dict__.setdefault(name, {})

    def __setattr__(self, name, value):
        place = {Parameter: "_parameters"}.get(type(value)) or ("_modules" if isinstance(value, Module) else None)
        if place and place not in self.__dict__:
            what = "module" if place == "_modules" else "parameters"
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        for each in PLACES:
            if name in self.__dict__.get(each, ()) and (value is None or each == "_buffers"):
                place = each
        (self.__dict__[place] if place else self.__dict__)[name] = value

    def __getattr__(self, name):
        for each in PLACES:
            if name in self.__dict__.get(each, ()):
                return self.__dict__[each][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def forward(self, *args):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    __call__ = lambda self, *args, **more: self.forward(*args, **more)
    register_buffer = lambda self, name, value, persistent=True: self._buffers.__setitem__(name, value)
    register_parameter = lambda self, name, value: self._parameters.__setitem__(name, value)
    children, modules = lambda self: iter(self._modules.values()), lambda self: (m for _, m in self.named_modules())
    parameters, buffers = (lambda self, name=name: (x for _, x in self._named(name)) for name in PLACES[:2])
    named_parameters, named_buffers = (lambda self, name=name: self._named(name) for name in PLACES[:2])
    half, float, double, bfloat16 = (
        lambda self, kind=kind: self.to(kind) for kind in (torch.half, torch.float, torch.double, torch.bfloat16)
    )
    cpu, cuda = lambda self: self.to("cpu"), lambda self, device=None: self.to("cuda" if device is None else device)
    eval, shown = lambda self: self.train(False), ""

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, each in self._modules.items():
            yield from each.named_modules(f"{prefix}.{name}" if prefix else name)

    def _named(self, *places):
        seen = set()
        for place in places:
            for prefix, module in self.named_modules():
                for name, each in module.__dict__[place].items():
                    if each is not None and id(each) not in seen:
                        seen.add(id(each))
                        yield f"{prefix}.{name}" if prefix else name, each

    def train(self, mode=True):
        for each in self.modules():
            each.__dict__["training"] = mode
        return self

    def apply(self, function):
        for each in self.children():
            each.apply(function)
        function(self)
        return self

    def to(self, *args, **more):
        """Move parameters and buffers, each in place; whole numbers keep their type."""
        for _, each in self._named("_parameters", "_buffers"):
            moved = each.detach().to(*args, **more)
            if not each.is_floating_point():
                moved = each.detach().to(moved.device)
            for name in ("_buffer", "device", "_dtype", "_strides", "_offset"):
                setattr(each, name, getattr(moved, name))
        return self

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def requires_grad_(self, wanted=True):
        for each in self.parameters():
            each.requires_grad_(wanted)
        return self

    def state_dict(self):
        return OrderedDict((name, each.detach()) for name, each in self._named("_parameters", "_buffers"))

    def load_state_dict(self, found, strict=True):
        own = self.state_dict()
        lines = []
        for what, names in (("Missing", own.keys() - found.keys()), ("Unexpected", found.keys() - own.keys())):
            if names and strict:
                known = ", ".join(f'"{name}"' for name in (*own, *found) if name in names)
                lines.append(f"{what} key(s) in state_dict: {known}. ")
        for name in [name for name in own if name in found]:
            if own[name]._shape != found[name]._shape:
                lines.append(
                    f"size mismatch for {name}: copying a param with shape {found[name].shape} from checkpoint, the shape in "
                    f"current model is {own[name].shape}."
                )
            else:
                own[name].copy_(found[name])
        if lines:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(lines))
        return "<All keys matched successfully>"

    def extra_repr(self):
        return self.shown.format_map(vars(self))

    def __repr__(self):
        parts = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in self._modules.items()]
        inside = "\n  " + "\n  ".join(parts) + "\n" if parts else self.extra_repr()
        return f"{type(self).__name__}({inside})"


class Sequential(Module):
    def __init__(self, *parts):
        super().__init__()
        named = parts[0].items() if len(parts) == 1 and isinstance(parts[0], dict) else enumerate(parts)
        self._modules.update({str(name): part for name, part in named})

    def forward(self, x):
        for each in self:
            x = each(x)
        return x

    __len__, __iter__ = lambda self: len(self._modules), lambda self: iter(self._modules.values())
    __getitem__ = lambda self, at: list(self)[at]
    append = lambda self, part: self._modules.__setitem__(str(len(self)), part)


class ModuleList(Sequential):
    def __init__(self, parts=()):
        super().__init__(*parts)


def _uniform(shape, bound, device=None, dtype=None):
    name = dtype.name if dtype else state.default
    return Parameter(drawn("uniform", shape, name, device, -bound, bound))


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features, bound = in_features, out_features, 1 / math.sqrt(in_features)
        self.weight, self.has_bias = _uniform((out_features, in_features), bound, device, dtype), bias
        self.register_parameter("bias", _uniform((out_features,), bound, device, dtype) if bias else None)

    forward = lambda self, x: F.linear(x, self.weight, self.bias)
    shown = "in_features={in_features}, out_features={out_features}, bias={has_bias}"


class Conv2d(Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, **more
    ):
        super().__init__()
        kernel, self.stride, self.padding, self.groups = _pair(kernel_size), _pair(stride), padding, groups
        self.text = f"{in_channels}, {out_channels}, kernel_size={kernel}, stride={self.stride}"
        shape = (out_channels, in_channels // groups, *kernel)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = _uniform(shape, bound)
        self.register_parameter("bias", _uniform(shape[:1], bound) if bias else None)

    forward = lambda self, x: F.conv2d(x, self.weight, self.bias, self.stride, self.padding, 1, self.groups)

    def extra_repr(self):
        padding = f", padding={_pair(self.padding)}" if self.padding else ""
        return self.text + padding + (", bias=False" if self.bias is None else "")


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, **more):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(torch.randn(num_embeddings, embedding_dim))

    forward = lambda self, x: F.embedding(x, self.weight)
    shown = "{num_embeddings}, {embedding_dim}"


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5, **more):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.weight = eps, Parameter(torch.ones(self.normalized_shape))
        self.bias = Parameter(torch.zeros(self.normalized_shape))

    forward = lambda self, x: F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
    shown = "{normalized_shape}, eps={eps}, elementwise_affine=True"


class BatchNorm1d(Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, **more):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight, self.bias = Parameter(torch.ones(num_features)), Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.num_batches_tracked.add_(1)
        own = self.weight, self.bias, self.training, self.momentum, self.eps
        return F.batch_norm(x, self.running_mean, self.running_var, *own)

    shown = "{num_features}, eps={eps}, momentum={momentum}, affine=True, track_running_stats=True"


BatchNorm2d = type("BatchNorm2d", (BatchNorm1d,), {"__module__": "torch.nn"})


class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, batch_first=False, **more):
        super().__init__()
        self.num_heads, self.batch_first, self.dropout = num_heads, batch_first, dropout
        self.in_proj_weight = _uniform((3 * embed_dim, embed_dim), math.sqrt(6 / (4 * embed_dim)))
        self.in_proj_bias, self.out_proj = Parameter(torch.zeros(3 * embed_dim)), Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, attn_mask=None, need_weights=True, is_causal=False, **more):
        turned = (lambda x: x) if self.batch_first else (lambda x: x.transpose(0, 1))
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = [
            F.linear(turned(each), *own) for each, *own in zip((query, key, value), weights, biases, strict=True)
        ]
        heads = [each.reshape(*each._shape[:2], self.num_heads, -1).transpose(1, 2) for each in parts]
        mask = attn_mask.logical_not() if attn_mask is not None and attn_mask._dtype == "bool" else attn_mask
        found = F.scaled_dot_product_attention(*heads, mask, self.dropout * self.training)
        return turned(self.out_proj(found.transpose(1, 2).flatten(2))), None


def _layer(name, function, training=False, **usual):
    """Make the class of a layer, or a loss, that is a function with fixed options."""

    def __init__(self, *args, **more):
        Module.__init__(self)
        self.options = {**usual, **dict(zip(usual, args, strict=False)), **more}
        if "stride" in usual and self.options["stride"] is None:
            self.options["stride"] = self.options["kernel_size"]

    def forward(self, *args):
        return function(*args, **self.options, **({"training": self.training} if training else {}))

    def extra_repr(self):
        return ", ".join(f"{key}={value}" for key, value in self.options.items()) if usual else ""

    made = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": "torch.nn"}
    return type(name, (Module,), made)


ReLU, GELU, SiLU, Sigmoid, Tanh = (
    _layer(each, getattr(F, each.lower())) for each in "ReLU GELU SiLU Sigmoid Tanh".split()
)
MSELoss, L1Loss, NLLLoss = (
    _layer(f"{each}Loss", getattr(F, f"{each.lower()}_loss")) for each in ("MSE", "L1", "NLL")
)
CrossEntropyLoss = _layer("CrossEntropyLoss", F.cross_entropy)
BCELoss = _layer("BCELoss", F.binary_cross_entropy)
BCEWithLogitsLoss = _layer("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits)
Dropout = _layer("Dropout", F.dropout, training=True, p=0.5, inplace=False)
Softmax, LogSoftmax = _layer("Softmax", F.softmax, dim=-1), _layer("LogSoftmax", F.log_softmax, dim=-1)
Flatten = _layer("Flatten", torch.flatten, start_dim=1, end_dim=-1)
Identity = _layer("Identity", lambda x, *args, **options: x)
MaxPool2d = _layer("MaxPool2d", F.max_pool2d, kernel_size=2, stride=None, padding=0, dilation=1, ceil_mode=False)
AvgPool2d = _layer("AvgPool2d", F.avg_pool2d, kernel_size=2, stride=None, padding=0)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", F.adaptive_avg_pool2d, output_size=1)


class TransformerEncoderLayer(Module):
    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation="relu",
        batch_first=False,
        norm_first=False,
        **more,
    ):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward), Linear(dim_feedforward, d_model)
        self.norm1, self.norm2, self.norm_first = LayerNorm(d_model), LayerNorm(d_model), norm_first
        self.dropout = Dropout(dropout)
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def forward(self, src, src_mask=None, is_causal=False, **more):
        attend = lambda x: self.dropout(self.self_attn(x, x, x, src_mask)[0])
        feed = lambda x: self.dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        if self.norm_first:
            src = src + attend(self.norm1(src))
            return src + feed(self.norm2(src))
        src = self.norm1(src + attend(src))
        return self.norm2(src + feed(src))


class TransformerEncoder(Module):
    def __init__(self, encoder_layer, num_layers, norm=None, **more):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.norm = norm or Identity()

    def forward(self, src, mask=None, **more):
        for each in self.layers:
            src = each(src, mask)
        return self.norm(src)


class Transformer(Module):
    """The original model, of which scripts use the mask."""

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        return torch.triu(torch.full((sz, sz), -math.inf, device=device, dtype=dtype), 1)


class GRU(Module):
    def __init__(self, input_size, hidden_size, num_layers=1, batch_first=False, **more):
        super().__init__()
        self.hidden_size, self.num_layers, self.batch_first = hidden_size, num_layers, batch_first
        for layer in range(num_layers):
            for name, size in (("ih", hidden_size if layer else input_size), ("hh", hidden_size)):
                for kind, rest in (("weight", (size,)), ("bias", ())):
                    made = _uniform((3 * hidden_size, *rest), hidden_size**-0.5)
                    setattr(self, f"{kind}_{name}_l{layer}", made)

    def forward(self, x, hidden=None):
        x, last = x.transpose(0, 1) if self.batch_first else x, []
        zeros = torch.zeros(x.size(1), self.hidden_size, device=x.device, dtype=x.dtype)
        for layer in range(self.num_layers):
            own = [getattr(self, f"{kind}_{name}_l{layer}") for name in ("ih", "hh") for kind in ("weight", "bias")]
            h, found = zeros if hidden is None else hidden[layer], []
            for at in range(x.size(0)):
                h = self.step(F.linear(x[at], *own[:2]), F.linear(h, *own[2:]), h)
                found.append(h)
            x, last = torch.stack(found), [*last, h]
        return x.transpose(0, 1) if self.batch_first else x, torch.stack(last)

    def step(self, given, before, h):
        (r, z, n), (s, y, m) = given.chunk(3, -1), before.chunk(3, -1)
        z = (z + y).sigmoid()
        return (1 - z) * (n + (r + s).sigmoid() * m).tanh() + z * h


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, **more):
    every = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [each.grad for each in every if each.grad is not None]
    total = torch.stack([each.norm() for each in grads]).norm()
    if all(each._known() for each in grads):
        share = min(max_norm / (total.item() + 1e-6), 1.0)
        for each in grads:
            each.mul_(share)
    return total


class DataParallel(Module):
    def __init__(self, module, device_ids=None, **more):
        super().__init__()
        self.module = module

    forward = lambda self, *args, **more: self.module(*args, **more)


def _filled(values):
    """Make a function that fills a tensor in place, whether it has gradients or not."""
    return lambda x, *args, **more: x.detach().copy_(values(x.detach(), *args, **more)) is None or x


def _spread(x, bound):
    return (torch.rand_like(x) * 2 - 1) * bound


init = fileless(
    "torch.nn.init", zeros_=_filled(torch.zeros_like), ones_=_filled(torch.ones_like),
    constant_=_filled(torch.full_like), normal_=_filled(lambda x, mean=0.0, std=1.0: torch.randn_like(x) * std + mean),
    uniform_=_filled(lambda x, a=0.0, b=1.0: torch.rand_like(x) * (b - a) + a),
    xavier_uniform_=_filled(lambda x: _spread(x, math.sqrt(6 / sum(x._shape[:2])))),
    kaiming_normal_=_filled(lambda x, **more: torch.randn_like(x) * math.sqrt(2 / math.prod(x._shape[1:]))),
    kaiming_uniform_=_filled(lambda x, **more: _spread(x, math.sqrt(6 / math.prod(x._shape[1:])))),
)  # fmt: skip
utils = fileless("torch.nn.utils", clip_grad_norm_=clip_grad_norm_)
