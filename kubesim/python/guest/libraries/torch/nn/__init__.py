"""torch.nn."""

import copy
import math
from collections import OrderedDict

import torch
from torch._autograd import set_grad
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


class Module:
    """A part of a model, with its parameters, buffers and parts."""

    training = True

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules"):
            self.__dict__.setdefault(name, {})
        self.__dict__["_hooks"] = []

    def __setattr__(self, name, value):
        kinds = {"_parameters": Parameter, "_modules": Module}
        place = next((each for each, kind in kinds.items() if isinstance(value, kind)), None)
        if place and place not in self.__dict__:
            raise AttributeError(
                f"cannot assign {place[1:-1]}s before Module.__init__() call".replace("modules", "module")
            )
        for each in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(each, ()) and (value is None or each == "_buffers"):
                place = each
        (self.__dict__[place] if place else self.__dict__)[name] = value

    def __getattr__(self, name):
        for each in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(each, ()):
                return self.__dict__[each][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __call__(self, *args, **more):
        found = self.forward(*args, **more)
        for hook in self._hooks:
            hook(self, args, found)
        return found

    def forward(self, *args):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    register_buffer = lambda self, name, value, persistent=True: self._buffers.__setitem__(name, value)
    register_parameter = lambda self, name, value: self._parameters.__setitem__(name, value)
    add_module = lambda self, name, value: self._modules.__setitem__(name, value)
    register_forward_hook = lambda self, hook: self._hooks.append(hook)
    children, named_children = lambda self: iter(self._modules.values()), lambda self: iter(self._modules.items())
    modules = lambda self: (module for _, module in self.named_modules())
    parameters = lambda self, recurse=True: (each for _, each in self.named_parameters())
    buffers = lambda self: (each for _, each in self._named("_buffers"))
    named_parameters = lambda self, *args, **more: self._named("_parameters")
    named_buffers = lambda self: self._named("_buffers")
    eval, half, float = (
        lambda self: self.train(False),
        lambda self: self.to(torch.float16),
        lambda self: self.to(torch.float32),
    )
    cpu, cuda = lambda self: self.to("cpu"), lambda self, device=None: self.to("cuda" if device is None else device)
    bfloat16, double = lambda self: self.to(torch.bfloat16), lambda self: self.to(torch.float64)
    extra_repr = lambda self: ""

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, each in self._modules.items():
            yield from each.named_modules(f"{prefix}.{name}" if prefix else name)

    def _named(self, place):
        seen = set()
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
        for module in self.modules():
            for table in (module._parameters, module._buffers):
                for name, each in table.items():
                    if each is not None:
                        self._move(table, name, each, args, more)
        return self

    @staticmethod
    def _move(table, name, each, args, more):
        kinds = [arg for arg in args if not isinstance(arg, torch.dtype)] if not each.is_floating_point() else args
        with set_grad(False):
            moved = each.to(
                *kinds, **(more if each.is_floating_point() else {k: v for k, v in more.items() if k != "dtype"})
            )
        each._buffer, each.device, each._dtype, each._strides, each._offset = (
            moved._buffer, moved.device, moved._dtype, moved._strides, moved._offset)  # fmt: skip

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def requires_grad_(self, wanted=True):
        for each in self.parameters():
            each.requires_grad_(wanted)
        return self

    def state_dict(self):
        return OrderedDict(
            (name, each.detach()) for name, each in [*self._named("_parameters"), *self._named("_buffers")]
        )

    def load_state_dict(self, found, strict=True):
        own = dict([*self._named("_parameters"), *self._named("_buffers")])
        missing, extra = [name for name in own if name not in found], [name for name in found if name not in own]
        lines = (
            [f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}. ".replace("'", '"')] if missing else []
        )
        lines += (
            [f"Unexpected key(s) in state_dict: {', '.join(map(repr, extra))}. ".replace("'", '"')] if extra else []
        )
        for name in set(own) & set(found):
            if own[name]._shape != found[name]._shape:
                lines.append(
                    f"size mismatch for {name}: copying a param with shape {found[name].shape} from checkpoint, the shape in "
                    f"current model is {own[name].shape}."
                )
            else:
                with set_grad(False):
                    own[name].copy_(found[name])
        if lines and strict:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(lines))
        return "<All keys matched successfully>"

    def __repr__(self):
        parts = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in self._modules.items()]
        if not parts:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(parts) + "\n)"


class Sequential(Module):
    def __init__(self, *parts):
        super().__init__()
        named = parts[0].items() if len(parts) == 1 and isinstance(parts[0], dict) else enumerate(parts)
        self._modules.update({str(name): part for name, part in named})

    def forward(self, x):
        for each in self._modules.values():
            x = each(x)
        return x

    __len__, __iter__ = lambda self: len(self._modules), lambda self: iter(self._modules.values())
    __getitem__ = lambda self, at: list(self._modules.values())[at]
    append = lambda self, part: self._modules.__setitem__(str(len(self)), part)


class ModuleList(Sequential):
    def __init__(self, parts=()):
        super().__init__(*parts)


def _uniform(shape, bound, device, dtype):
    name = dtype.name if dtype else state.default
    return Parameter(drawn("uniform", shape, name, device, -bound, bound))


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features, bound = in_features, out_features, 1 / math.sqrt(in_features)
        self.weight = _uniform((out_features, in_features), bound, device, dtype)
        self.register_parameter("bias", _uniform((out_features,), bound, device, dtype) if bias else None)

    forward = lambda self, x: F.linear(x, self.weight, self.bias)
    extra_repr = lambda self: (
        f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
    )


class Conv2d(Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, **more
    ):
        super().__init__()
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride, self.padding, self.groups = stride, padding, groups
        self.text = f"{in_channels}, {out_channels}, kernel_size={kernel}, stride={(stride,) * 2 if isinstance(stride, int) else stride}"
        shape = (out_channels, in_channels // groups, *kernel)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = _uniform(shape, bound, None, None)
        self.register_parameter("bias", _uniform(shape[:1], bound, None, None) if bias else None)

    forward = lambda self, x: F.conv2d(x, self.weight, self.bias, self.stride, self.padding, 1, self.groups)
    extra_repr = lambda self: self.text + (f", padding={(self.padding,) * 2 if isinstance(self.padding, int) else self.padding}"
                                           if self.padding else "") + (", bias=False" if self.bias is None else "")  # fmt: skip


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, **more):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(torch.randn(num_embeddings, embedding_dim))

    forward = lambda self, x: F.embedding(x, self.weight)
    extra_repr = lambda self: f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5, **more):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight, self.bias = (
            Parameter(torch.ones(self.normalized_shape)),
            Parameter(torch.zeros(self.normalized_shape)),
        )

    forward = lambda self, x: F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
    extra_repr = lambda self: f"{self.normalized_shape}, eps={self.eps}, elementwise_affine=True"


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

    extra_repr = lambda self: (
        f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine=True, track_running_stats=True"
    )


BatchNorm2d = type("BatchNorm2d", (BatchNorm1d,), {"__module__": "torch.nn"})


class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, batch_first=False, **more):
        super().__init__()
        self.num_heads, self.batch_first, self.dropout = num_heads, batch_first, dropout
        self.in_proj_weight = _uniform((3 * embed_dim, embed_dim), math.sqrt(6 / (4 * embed_dim)), None, None)
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


_made = {}


def _layer(name, function, **usual):
    """Make the class of a layer, or a loss, that is a function with fixed options."""

    def __init__(self, *args, **more):
        Module.__init__(self)
        self.options = {**usual, **dict(zip(usual, args, strict=False)), **more}
        if usual.get("stride", 0) is None and self.options["stride"] is None:
            self.options["stride"] = self.options["kernel_size"]

    def forward(self, *args):
        return function(*args, **self.options, **({"training": self.training} if name == "Dropout" else {}))

    def extra_repr(self):
        return (
            ", ".join(f"{key}={value}" for key, value in self.options.items())
            if usual and not name.endswith("Loss")
            else ""
        )

    made = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": "torch.nn"}
    globals()[name] = _made[name] = type(name, (Module,), made)


for name in ("ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus"):
    _layer(name, getattr(F, name.lower()))
for name in (
    "CrossEntropyLoss",
    "MSELoss",
    "L1Loss",
    "NLLLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "SmoothL1Loss",
    "HuberLoss",
):
    words = {"CrossEntropyLoss": "cross_entropy", "BCELoss": "binary_cross_entropy", "NLLLoss": "nll_loss",
             "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "SmoothL1Loss": "smooth_l1_loss"}  # fmt: skip
    _layer(name, getattr(F, words.get(name, name[:-4].lower() + "_loss")))
_layer("Dropout", F.dropout, p=0.5, inplace=False)
_layer("Softmax", F.softmax, dim=-1)
_layer("LogSoftmax", F.log_softmax, dim=-1)
_layer("Flatten", lambda x, start_dim, end_dim: x.flatten(start_dim, end_dim), start_dim=1, end_dim=-1)
_layer("Identity", lambda x, **options: x)
_layer("MaxPool2d", F.max_pool2d, kernel_size=2, stride=None, padding=0, dilation=1, ceil_mode=False)
_layer("AvgPool2d", F.avg_pool2d, kernel_size=2, stride=None, padding=0)
_layer("AdaptiveAvgPool2d", F.adaptive_avg_pool2d, output_size=1)


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
        self.linear1, self.dropout, self.linear2 = (
            Linear(d_model, dim_feedforward),
            _made["Dropout"](dropout),
            Linear(dim_feedforward, d_model),
        )
        self.norm1, self.norm2, self.norm_first = LayerNorm(d_model), LayerNorm(d_model), norm_first
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
        self.norm = norm or _made["Identity"]()

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
    gates = 3

    def __init__(self, input_size, hidden_size, num_layers=1, batch_first=False, **more):
        super().__init__()
        self.hidden_size, self.num_layers, self.batch_first = hidden_size, num_layers, batch_first
        for layer in range(num_layers):
            for name, size in (("ih", hidden_size if layer else input_size), ("hh", hidden_size)):
                for kind, rest in (("weight", (size,)), ("bias", ())):
                    made = _uniform((self.gates * hidden_size, *rest), hidden_size**-0.5, None, None)
                    setattr(self, f"{kind}_{name}_l{layer}", made)

    def forward(self, x, hidden=None):
        x = x.transpose(0, 1) if self.batch_first else x
        zeros, last = torch.zeros(x.size(1), self.hidden_size, device=x.device, dtype=x.dtype), []
        for layer in range(self.num_layers):
            own = [getattr(self, f"{kind}_{name}_l{layer}") for name in ("ih", "hh") for kind in ("weight", "bias")]
            state, outs = (zeros, zeros) if hidden is None else self.split(hidden, layer), []
            for at in range(x.size(0)):
                state = self.step(F.linear(x[at], *own[:2]), F.linear(state[0], *own[2:]), *state)
                outs.append(state[0])
            x, last = torch.stack(outs), [*last, state]
        whole = [torch.stack(each) for each in zip(*last, strict=True)]
        return x.transpose(0, 1) if self.batch_first else x, whole[0] if self.gates == 3 else tuple(whole)

    split = lambda self, hidden, layer: (hidden[layer], hidden[layer])

    def step(self, given, before, h, unused):
        (r, z, n), (s, y, m) = given.chunk(3, -1), before.chunk(3, -1)
        z = (z + y).sigmoid()
        h = (1 - z) * (n + (r + s).sigmoid() * m).tanh() + z * h
        return h, h


class LSTM(GRU):
    gates = 4
    split = lambda self, hidden, layer: (hidden[0][layer], hidden[1][layer])

    def step(self, given, before, h, c):
        i, f, g, o = (given + before).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


_changed = lambda change: lambda x, *args, **more: x.detach()._become(change(x.detach(), *args, **more)) is None or x


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, **more):
    grads = [
        each.grad
        for each in ([parameters] if isinstance(parameters, Tensor) else parameters)
        if each.grad is not None
    ]
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


def _bound(x, gain=1.0):
    return gain * math.sqrt(3 / math.prod(x._shape[1:]))


init = fileless(
    "torch.nn.init",
    zeros_=_changed(lambda x: torch.zeros_like(x)), ones_=_changed(lambda x: torch.ones_like(x)),
    constant_=_changed(torch.full_like), normal_=_changed(lambda x, mean=0.0, std=1.0: torch.randn_like(x) * std + mean),
    uniform_=_changed(lambda x, a=0.0, b=1.0: torch.rand_like(x) * (b - a) + a),
    xavier_uniform_=_changed(lambda x, **more: (torch.rand_like(x) * 2 - 1) * math.sqrt(6 / sum(x._shape[:2]))),
    xavier_normal_=_changed(lambda x, **more: torch.randn_like(x) * math.sqrt(2 / sum(x._shape[:2]))),
    kaiming_uniform_=_changed(lambda x, *args, **more: (torch.rand_like(x) * 2 - 1) * _bound(x, math.sqrt(2))),
    kaiming_normal_=_changed(lambda x, *args, **more: torch.randn_like(x) * math.sqrt(2 / math.prod(x._shape[1:]))),
)  # fmt: skip
utils = fileless("torch.nn.utils", clip_grad_norm_=clip_grad_norm_)


def __getattr__(name):
    raise AttributeError(f"module 'torch.nn' has no attribute {name!r}")


del name, words
