"""torch.nn."""

import copy
import inspect
import math
from collections import OrderedDict
from itertools import groupby

from _arrays import sizes
from _elements import accepting, bind

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

    _written = lambda self: [f"({name}): {each!r}" for name, each in self._modules.items()]

    def __repr__(self):
        parts = "\n".join(self._written()).replace("\n", "\n  ")
        return f"{type(self).__name__}(" + (f"\n  {parts}\n" if parts else self.extra_repr()) + ")"


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

    def _written(self):
        """Return what is printed of the parts: equal ones that follow each other once."""
        lines, at = [], 0
        for text, same in groupby(map(repr, self)):
            count = len(list(same))
            lines.append(f"({at}): {text}" if count == 1 else f"({at}-{at + count - 1}): {count} x {text}")
            at += count
        return lines


class TransformerEncoder(Module):
    @accepting("enable_nested_tensor mask_check")
    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.norm = norm

    @accepting("src_key_padding_mask is_causal")
    def forward(self, src, mask=None):
        found = Sequential.forward(self.layers, src)
        return found if self.norm is None else self.norm(found)


class DataParallel(Module):
    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module

    forward = lambda self, *args, **more: self.module(*args, **more)


class Transformer(Module):
    """The original model, of which scripts use the mask."""

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        return torch.triu(torch.full((sz, sz), -math.inf, device=device, dtype=dtype), 1)


# Layers and losses: their options and parameters, what they compute, and what is printed of them.


def _weights(bound, device=None, dtype=None, **shapes):
    """Return parameters of some shapes; False: none."""
    kind = dtype.name if dtype else state.default
    draw = lambda shape: Parameter(drawn("uniform", shape, kind, device, -bound, bound))
    return {name: draw(shape) if shape else None for name, shape in shapes.items()}


def _affine(shape, scaled=True, moved=True, **kind):
    weight, bias = Parameter(torch.ones(shape, **kind)), Parameter(torch.zeros(shape, **kind))
    return {"weight": weight if scaled else None, "bias": bias if scaled and moved else None}


def _linear(in_features, out_features, bias=True, device=None, dtype=None):
    shapes = {"weight": (out_features, in_features), "bias": bias and (out_features,)}
    return _weights(in_features**-0.5, device, dtype, **shapes)


def _convolution(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):  # fmt: skip
    sides = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
    shape = (out_channels, in_channels // groups, *sides)
    return _weights(math.prod(shape[1:]) ** -0.5, device, dtype, weight=shape, bias=bias and shape[:1])


def _convolution_text(in_channels, out_channels, kernel_size, stride, padding, bias, **others):
    sizes = {"kernel_size": kernel_size, "stride": stride, **({"padding": padding} if padding else {})}
    pairs = {name: (size, size) if isinstance(size, int) else size for name, size in sizes.items()}
    told = "".join(f", {name}={pair}" for name, pair in pairs.items())
    return f"{in_channels}, {out_channels}{told}" + ("" if bias else ", bias=False")


def _batch(num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
    kind = {"device": device, "dtype": dtype}
    seen = {"running_mean": torch.zeros(num_features, **kind), "running_var": torch.ones(num_features, **kind)}
    return {**_affine(num_features, **kind), **seen, "num_batches_tracked": torch.tensor(0)}


def _layer_norm(normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
    return _affine(normalized_shape, elementwise_affine, bias, device=device, dtype=dtype)


def _recurrent(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0):
    shapes = {}
    for layer in range(num_layers):
        for name, size in (("ih", hidden_size if layer else input_size), ("hh", hidden_size)):
            shapes |= {
                f"weight_{name}_l{layer}": (3 * hidden_size, size),
                f"bias_{name}_l{layer}": (3 * hidden_size,),
            }
    return _weights(hidden_size**-0.5, **shapes)


def _recurrent_text(input_size, hidden_size, **options):
    usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
    told = [f"{name}={value}" for name, value in options.items() if value != usual[name]]
    return ", ".join(map(str, (input_size, hidden_size, *told)))


def _attention(embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False, device=None, dtype=None):
    shapes = {"in_proj_weight": (3 * embed_dim, embed_dim), "in_proj_bias": bias and (3 * embed_dim,)}
    projection = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
    return {**_weights(embed_dim**-0.5, device, dtype, **shapes), "out_proj": projection}


def _encoder(d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
             norm_first=False, bias=True, device=None, dtype=None):  # fmt: skip
    kind = {"device": device, "dtype": dtype}
    norms = {name: torch.nn.LayerNorm(d_model, layer_norm_eps, bias=bias, **kind) for name in ("norm1", "norm2")}
    return {
        "self_attn": torch.nn.MultiheadAttention(d_model, nhead, dropout, bias, batch_first, **kind),
        "linear1": torch.nn.Linear(d_model, dim_feedforward, bias, **kind),
        "dropout": torch.nn.Dropout(dropout),
        "linear2": torch.nn.Linear(dim_feedforward, d_model, bias, **kind),
        **norms,
        **{name: torch.nn.Dropout(dropout) for name in ("dropout1", "dropout2")},
        **({"activation": activation} if isinstance(activation, Module) else {}),
    }


def _estimated(layer, x, *others):
    """Return what a layer computes with all of its parameters at each place of a sequence."""
    own = tuple(layer.parameters())
    flops = 2.0 * math.prod(x._shape[:-1]) * sum(each.numel() for each in own)
    return F.estimate(type(layer).__name__, (x, *own), x._shape, flops)


def _recur(layer, x, hidden=None):
    options = layer.options
    found = F.estimate("Gru", (_estimated(layer, x),), (*x._shape[:2], options["hidden_size"]), 0)
    shape = options["num_layers"], x._shape[0 if options["batch_first"] else 1], options["hidden_size"]
    return found, F.estimate("Gru", (found,), shape, 0)


def _batch_norm(layer, x):
    shape, dims = (1, -1) + (1,) * (x.ndim - 2), tuple(at for at in range(x.ndim) if at != 1)
    own = layer.weight, layer.bias, layer.eps, shape
    if not layer.training:
        return F.normalize(x, layer.running_mean.reshape(shape), layer.running_var.reshape(shape), *own)
    with torch.no_grad():
        layer.num_batches_tracked.add_(1)
        for kept, name in ((layer.running_mean, "mean"), (layer.running_var, "var1")):
            kept.copy_(kept * (1 - layer.momentum) + x.detach()._reduced(name, dims) * layer.momentum)
    return F.normalize(x, x.mean(dims, True), x._reduced("var0", dims, True), *own)


def _function(function, *ignored, training=False):
    """Return what a layer computes that is a function of its options."""

    def forward(layer, *args):
        options = {key: value for key, value in layer.options.items() if key not in ignored}
        return function(*args, **options, **({"training": layer.training} if training else {}))

    return forward


def _layer(name, make, forward, shown=None):
    """Make the class of a layer."""
    signature = inspect.signature(make)

    def __init__(self, *args, **more):
        Module.__init__(self)
        self.options = bind(name, signature, args, more)
        parameters = make(*args, **more)
        if self.options.get("stride", 1) is None:
            self.options["stride"] = self.options["kernel_size"]
        if "normalized_shape" in self.options:
            self.options["normalized_shape"] = sizes((self.options["normalized_shape"],))
        for key, value in parameters.items():
            place = "_buffers" if type(value) is Tensor else "_parameters"
            self.__dict__["_modules" if isinstance(value, Module) else place][key] = value
        self.__dict__.update({key: value for key, value in self.options.items() if key not in parameters})

    def extra_repr(self):
        told = {key: value for key, value in self.options.items() if key != "reduction" and value is not None}
        usual = ", ".join(f"{key}={value}" for key, value in told.items())
        return usual if shown is None else shown(**told) if callable(shown) else shown.format_map(told)

    made = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": "torch.nn"}
    return type(name, (Module,), made)


_none = lambda: {}
_loss = lambda reduction="mean": {}
_normed = "{num_features}, eps={eps}, momentum={momentum}, affine=True, track_running_stats=True"
LAYERS = {
    "Linear": (_linear, lambda layer, x: F.linear(x, layer.weight, layer.bias),
               "in_features={in_features}, out_features={out_features}, bias={bias}"),
    "Conv2d": (_convolution, lambda layer, x: F.conv2d(x, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups),
               _convolution_text),
    "Embedding": (lambda num_embeddings, embedding_dim, padding_idx=None, device=None, dtype=None: {
        "weight": Parameter(torch.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))},
        lambda layer, x: F.embedding(x, layer.weight), "{num_embeddings}, {embedding_dim}"),
    "LayerNorm": (_layer_norm, lambda layer, x: F.layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps),
                  "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}"),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d"), (_batch, _batch_norm, _normed)),
    "GRU": (_recurrent, _recur, _recurrent_text),
    "MultiheadAttention": (_attention, lambda layer, query, key, value, attn_mask=None, key_padding_mask=None, need_weights=True,
                           is_causal=False: (_estimated(layer, query), None)),
    "TransformerEncoderLayer": (_encoder, lambda layer, src, src_mask=None, src_key_padding_mask=None, is_causal=False: _estimated(layer, src)),
    **{name: (lambda inplace=False: {}, _function(getattr(F, name.lower())), lambda inplace: "inplace=True" * inplace) for name in ("ReLU", "SiLU")},
    **{name: (_none, _function(getattr(F, name.lower()))) for name in ("Sigmoid", "Tanh")},
    "GELU": (lambda approximate="none": {}, _function(F.gelu), "approximate={approximate!r}"),
    "MSELoss": (_loss, _function(F.mse_loss)), "L1Loss": (_loss, _function(F.l1_loss)),
    "BCELoss": (_loss, _function(F.binary_cross_entropy)),
    "BCEWithLogitsLoss": (_loss, _function(F.binary_cross_entropy_with_logits)),
    "NLLLoss": (lambda weight=None, ignore_index=-100, reduction="mean": {}, _function(F.nll_loss), ""),
    "CrossEntropyLoss": (lambda weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0: {}, _function(F.cross_entropy), ""),
    "Dropout": (lambda p=0.5, inplace=False: {}, _function(F.dropout, training=True)),
    "Softmax": (lambda dim=-1: {}, _function(F.softmax)), "LogSoftmax": (lambda dim=-1: {}, _function(F.log_softmax)),
    "Flatten": (lambda start_dim=1, end_dim=-1: {}, _function(torch.flatten)), "Identity": (_none, lambda layer, x: x),
    "MaxPool2d": (lambda kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False: {}, _function(F.max_pool2d, "dilation")),
    "AvgPool2d": (lambda kernel_size, stride=None, padding=0, ceil_mode=False: {}, _function(F.avg_pool2d),
                  "kernel_size={kernel_size}, stride={stride}, padding={padding}"),
    "AdaptiveAvgPool2d": (lambda output_size: {}, _function(F.adaptive_avg_pool2d)),
}  # fmt: skip
globals().update({name: _layer(name, *row) for name, row in LAYERS.items()})
NonDynamicallyQuantizableLinear = type(
    "NonDynamicallyQuantizableLinear", (globals()["Linear"],), {"__module__": "torch.nn"}
)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    every = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [each.grad for each in every if each.grad is not None]
    total = torch.stack([each.norm() for each in grads]).norm()
    share = min(max_norm / (total.item() + 1e-6), 1.0)
    for each in grads:
        each.mul_(share)
    return total


def _filled(values):
    """Make a function that fills a tensor in place, whether it has gradients or not."""
    filled = accepting("a mode nonlinearity")(values)
    return lambda tensor, *args, **more: (
        tensor.detach().copy_(filled(tensor.detach(), *args, **more)) is None or tensor
    )


_between = lambda x, bound: (torch.rand_like(x) * 2 - 1) * bound
fileless(
    "torch.nn.init", zeros_=_filled(torch.zeros_like), ones_=_filled(torch.ones_like),
    constant_=_filled(torch.full_like), normal_=_filled(lambda x, mean=0.0, std=1.0: torch.randn_like(x) * std + mean),
    xavier_uniform_=_filled(lambda x, gain=1.0: _between(x, gain * math.sqrt(6 / sum(x._shape[:2])))),
    kaiming_normal_=_filled(lambda x: torch.randn_like(x) * math.sqrt(2 / math.prod(x._shape[1:]))),
    kaiming_uniform_=_filled(lambda x: _between(x, math.sqrt(6 / math.prod(x._shape[1:])))),
)  # fmt: skip
fileless("torch.nn.utils", clip_grad_norm_=clip_grad_norm_)
