"""torch.nn."""

import copy
import math
from collections import OrderedDict

from _arrays import accepting

import torch
from torch._tensor import Tensor, drawn
from torch._types import module as fileless
from torch._types import state
from torch.nn import functional as F


class Parameter(Tensor):
    __slots__ = ()

    def __new__(cls, data=None, requires_grad=True):
        made = data.detach()
        made.__class__, made._wants = cls, requires_grad
        return made

    __init__ = lambda self, data=None, requires_grad=True: None


PLACES = ("_parameters", "_buffers", "_modules")


class Module:
    """A part of a model, with its parameters, buffers and parts."""

    training, shown = True, ""

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
    register_buffer = lambda self, name, tensor, persistent=True: self._buffers.__setitem__(name, tensor)
    register_parameter = lambda self, name, param: self._parameters.__setitem__(name, param)
    children, modules = lambda self: iter(self._modules.values()), lambda self: (m for _, m in self.named_modules())
    parameters, buffers = (lambda self, *, name=name: (x for _, x in self._named(name)) for name in PLACES[:2])
    named_parameters, named_buffers = (lambda self, *, name=name: self._named(name) for name in PLACES[:2])
    half, float, double, bfloat16 = (
        lambda self, *, kind=kind: self.to(kind) for kind in (torch.half, torch.float, torch.double, torch.bfloat16)
    )
    cpu, cuda = lambda self: self.to("cpu"), lambda self, device=None: self.to("cuda" if device is None else device)
    eval, extra_repr = lambda self: self.train(False), lambda self: self.shown.format_map(vars(self))

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

    def apply(self, fn):
        for each in self.children():
            each.apply(fn)
        fn(self)
        return self

    def to(self, *args, **more):
        """Move parameters and buffers, each in place; whole numbers keep their type."""
        for _, each in self._named("_parameters", "_buffers"):
            moved = each.detach().to(*args, **more)
            if not each.is_floating_point():
                moved = each.detach().to(moved._device)
            for name in ("_buffer", "_device", "_dtype", "_strides", "_offset"):
                setattr(each, name, getattr(moved, name))
        return self

    def zero_grad(self, set_to_none=True):
        for each in self.parameters():
            each.grad = None

    def requires_grad_(self, requires_grad=True):
        for each in self.parameters():
            each.requires_grad_(requires_grad)
        return self

    def state_dict(self):
        return OrderedDict((name, each.detach()) for name, each in self._named("_parameters", "_buffers"))

    def load_state_dict(self, state_dict, strict=True):
        own, lines = self.state_dict(), []
        for what, names in (
            ("Missing", own.keys() - state_dict.keys()),
            ("Unexpected", state_dict.keys() - own.keys()),
        ):
            if names and strict:
                known = ", ".join(f'"{name}"' for name in (*own, *state_dict) if name in names)
                lines.append(f"{what} key(s) in state_dict: {known}. ")
        for name in [name for name in own if name in state_dict]:
            if own[name]._shape != state_dict[name]._shape:
                text = (
                    f"size mismatch for {name}: copying a param with shape {state_dict[name].shape} from checkpoint, "
                )
                lines.append(f"{text}the shape in current model is {own[name].shape}.")
            else:
                own[name].copy_(state_dict[name])
        if lines:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(lines))
        return "<All keys matched successfully>"

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
    def __init__(self, modules=()):
        super().__init__(*modules)


def _uniform(shape, bound, device=None, dtype=None):
    name = dtype.name if dtype else state.default
    return Parameter(drawn("uniform", shape, name, device, -bound, bound))


class Linear(Module):
    shown = "in_features={in_features}, out_features={out_features}, bias={has_bias}"

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features, bound = in_features, out_features, 1 / math.sqrt(in_features)
        self.weight, self.has_bias = _uniform((out_features, in_features), bound, device, dtype), bias
        self.register_parameter("bias", _uniform((out_features,), bound, device, dtype) if bias else None)

    forward = lambda self, x: F.linear(x, self.weight, self.bias)


class Conv2d(Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):  # fmt: skip
        super().__init__()
        kernel, self.options = F._pair(kernel_size), (F._pair(stride), padding, dilation, groups)
        self.text = f"{in_channels}, {out_channels}, kernel_size={kernel}, stride={self.options[0]}"
        self.text += f", padding={F._pair(padding) if isinstance(padding, int) else padding}" if padding else ""
        self.text += "" if bias else ", bias=False"
        shape = (out_channels, in_channels // groups, *kernel)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = _uniform(shape, bound, device, dtype)
        self.register_parameter("bias", _uniform(shape[:1], bound, device, dtype) if bias else None)

    forward = lambda self, x: F.conv2d(x, self.weight, self.bias, *self.options)
    extra_repr = lambda self: self.text


class Embedding(Module):
    shown = "{num_embeddings}, {embedding_dim}"

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(torch.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))

    forward = lambda self, x: F.embedding(x, self.weight)


class LayerNorm(Module):
    shown = "{normalized_shape}, eps={eps}, elementwise_affine=True"

    def __init__(self, normalized_shape, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.weight = eps, Parameter(torch.ones(self.normalized_shape, device=device, dtype=dtype))
        self.bias = Parameter(torch.zeros(self.normalized_shape, device=device, dtype=dtype))

    forward = lambda self, x: F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class BatchNorm1d(Module):
    shown = "{num_features}, eps={eps}, momentum={momentum}, affine=True, track_running_stats=True"

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        zeros, ones = (
            lambda make=make: make(num_features, device=device, dtype=dtype) for make in (torch.zeros, torch.ones)
        )
        self.weight, self.bias = Parameter(ones()), Parameter(zeros())
        for name, value in (
            ("running_mean", zeros()),
            ("running_var", ones()),
            ("num_batches_tracked", torch.tensor(0)),
        ):
            self.register_buffer(name, value)

    def forward(self, x):
        if self.training:
            self.num_batches_tracked.add_(1)
        own = self.weight, self.bias, self.training, self.momentum, self.eps
        return F.batch_norm(x, self.running_mean, self.running_var, *own)


BatchNorm2d = type("BatchNorm2d", (BatchNorm1d,), {"__module__": "torch.nn"})


class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, batch_first=False):
        super().__init__()
        self.in_proj_weight = _uniform((3 * embed_dim, embed_dim), math.sqrt(6 / (4 * embed_dim)))
        self.in_proj_bias, self.out_proj = Parameter(torch.zeros(3 * embed_dim)), Linear(embed_dim, embed_dim)

    @accepting("key_padding_mask need_weights is_causal average_attn_weights")
    def forward(self, query, key, value, attn_mask=None):
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = [F.linear(each, *own) for each, *own in zip((query, key, value), weights, biases, strict=True)]
        return self.out_proj(F.scaled_dot_product_attention(*parts)), None


def _layer(name, function, training=False, ignored=(), **usual):
    """Make the class of a layer, or a loss, that is a function with fixed options."""

    def __init__(self, *args, **more):
        Module.__init__(self)
        known = [*usual, *ignored]
        if wrong := [key for key in more if key not in known]:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument {wrong[0]!r}")
        if len(args) > len(known):
            raise TypeError(
                f"{name}.__init__() takes {len(known) + 1} positional arguments but {len(args) + 1} were given"
            )
        self.options = {**usual, **dict(zip(known, args, strict=False)), **more}
        if "stride" in usual and self.options["stride"] is None:
            self.options["stride"] = self.options["kernel_size"]

    def forward(self, *args):
        given = {key: value for key, value in self.options.items() if key not in ignored}
        return function(*args, **given, **({"training": self.training} if training else {}))

    def extra_repr(self):
        return ", ".join(f"{key}={value}" for key, value in self.options.items()) if shown else ""

    shown = usual and "reduction" not in usual
    made = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": "torch.nn"}
    return type(name, (Module,), made)


LAYERS = {
    **{name: (getattr(F, name.lower()), {"ignored": ("inplace",)}) for name in ("ReLU", "SiLU")},
    **{name: (getattr(F, name.lower()), {}) for name in ("GELU", "Sigmoid", "Tanh")},
    "MSELoss": (F.mse_loss, {"reduction": "mean"}), "L1Loss": (F.l1_loss, {"reduction": "mean"}),
    "BCELoss": (F.binary_cross_entropy, {"reduction": "mean"}),
    "BCEWithLogitsLoss": (F.binary_cross_entropy_with_logits, {"reduction": "mean"}),
    "NLLLoss": (F.nll_loss, {"weight": None, "ignore_index": -100, "reduction": "mean"}),
    "CrossEntropyLoss": (F.cross_entropy, {"weight": None, "ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0}),
    "Dropout": (F.dropout, {"training": True, "p": 0.5, "inplace": False}),
    "Softmax": (F.softmax, {"dim": -1}), "LogSoftmax": (F.log_softmax, {"dim": -1}),
    "Flatten": (torch.flatten, {"start_dim": 1, "end_dim": -1}), "Identity": (lambda x: x, {}),
    "MaxPool2d": (F.max_pool2d, {"kernel_size": 2, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "ignored": ("dilation",)}),
    "AvgPool2d": (F.avg_pool2d, {"kernel_size": 2, "stride": None, "padding": 0}),
    "AdaptiveAvgPool2d": (F.adaptive_avg_pool2d, {"output_size": 1}),
}  # fmt: skip
globals().update({name: _layer(name, function, **usual) for name, (function, usual) in LAYERS.items()})


class TransformerEncoderLayer(Module):
    @accepting("layer_norm_eps bias device dtype")
    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation="relu",
        batch_first=False,
        norm_first=False,
    ):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward), Linear(dim_feedforward, d_model)
        self.norm1, self.norm2, self.norm_first = LayerNorm(d_model), LayerNorm(d_model), norm_first
        self.dropout = torch.nn.Dropout(dropout)
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    @accepting("src_key_padding_mask is_causal")
    def forward(self, src, src_mask=None):
        attend = lambda x: self.dropout(self.self_attn(x, x, x)[0])
        feed = lambda x: self.dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        if self.norm_first:
            src = src + attend(self.norm1(src))
            return src + feed(self.norm2(src))
        src = self.norm1(src + attend(src))
        return self.norm2(src + feed(src))


class TransformerEncoder(Module):
    @accepting("enable_nested_tensor mask_check")
    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.norm = norm or torch.nn.Identity()

    @accepting("src_key_padding_mask is_causal")
    def forward(self, src, mask=None):
        for each in self.layers:
            src = each(src, mask)
        return self.norm(src)


class Transformer(Module):
    """The original model, of which scripts use the mask."""

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        return torch.triu(torch.full((sz, sz), -math.inf, device=device, dtype=dtype), 1)


class GRU(Module):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0):
        super().__init__()
        self.sizes = hidden_size, num_layers, batch_first
        for layer in range(num_layers):
            for name, size in (("ih", hidden_size if layer else input_size), ("hh", hidden_size)):
                for kind, rest in (("weight", (size,)), ("bias", ())):
                    made = _uniform((3 * hidden_size, *rest), hidden_size**-0.5)
                    setattr(self, f"{kind}_{name}_l{layer}", made)

    def forward(self, x, hidden=None):
        (hidden_size, layers, first), own = self.sizes, tuple(self.parameters())
        flops = 2.0 * math.prod(x._shape[:2]) * sum(each.numel() for each in own)
        found = F.estimate("Gru", (x, *own), (*x._shape[:2], hidden_size), flops)
        return found, F.estimate("Gru", (found,), (layers, x._shape[0 if first else 1], hidden_size), 0)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    every = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [each.grad for each in every if each.grad is not None]
    total = torch.stack([each.norm() for each in grads]).norm()
    if all(each._known() for each in grads):
        share = min(max_norm / (total.item() + 1e-6), 1.0)
        for each in grads:
            each.mul_(share)
    return total


class DataParallel(Module):
    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module

    forward = lambda self, *args, **more: self.module(*args, **more)


def _filled(values):
    """Make a function that fills a tensor in place, whether it has gradients or not."""
    return lambda tensor, *args, **more: (
        tensor.detach().copy_(values(tensor.detach(), *args, **more)) is None or tensor
    )


_spread = lambda x, bound: (torch.rand_like(x) * 2 - 1) * bound
fileless(
    "torch.nn.init", zeros_=_filled(torch.zeros_like), ones_=_filled(torch.ones_like),
    constant_=_filled(torch.full_like), normal_=_filled(lambda x, mean=0.0, std=1.0: torch.randn_like(x) * std + mean),
    uniform_=_filled(lambda x, a=0.0, b=1.0: torch.rand_like(x) * (b - a) + a),
    xavier_uniform_=_filled(lambda x, gain=1.0: _spread(x, gain * math.sqrt(6 / sum(x._shape[:2])))),
    kaiming_normal_=_filled(accepting("a mode nonlinearity")(lambda x: torch.randn_like(x) * math.sqrt(2 / math.prod(x._shape[1:])))),
    kaiming_uniform_=_filled(accepting("a mode nonlinearity")(lambda x: _spread(x, math.sqrt(6 / math.prod(x._shape[1:]))))),
)  # fmt: skip
fileless("torch.nn.utils", clip_grad_norm_=clip_grad_norm_)
