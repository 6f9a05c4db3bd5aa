"""torch.nn. The options of layers, and what is printed of them, are in ``names.json``."""

import copy
import math
from collections import OrderedDict
from itertools import groupby, product

from _arrays import sizes
from _elements import NAMES, accepting, bind, fixed, pair

import torch
from torch._tensor import Tensor, drawn
from torch._types import module as fileless
from torch._types import placed, state
from torch.nn import functional as F

PLACES = ("_parameters", "_buffers", "_modules")


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
        for name in PLACES:
            self.__dict__.setdefault(name, {})

    def __setattr__(self, name, value):
        place = "_parameters" if isinstance(value, Parameter) else "_modules" if isinstance(value, Module) else None
        if place and place not in self.__dict__:
            raise AttributeError(f"cannot assign {place[1:].removesuffix('s')} before Module.__init__() call")
        place = place or next((each for each in PLACES if name in self.__dict__.get(each, ())), None)
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
    named_parameters, named_buffers = lambda self: self._named("_parameters"), lambda self: self._named("_buffers")
    parameters, buffers = (lambda self, *, name=name: (x for _, x in self._named(name)) for name in PLACES[:2])
    half, float, double, bfloat16 = (
        lambda self, *, kind=kind: self.to(kind) for kind in (torch.half, torch.float, torch.double, torch.bfloat16)
    )
    cpu, cuda = lambda self: self.to("cpu"), lambda self, device=None: self.to("cuda" if device is None else device)
    eval, extra_repr = lambda self: self.train(False), lambda self: ""
    state_dict = lambda self: OrderedDict((name, x.detach()) for name, x in self._named("_parameters", "_buffers"))
    train = lambda self, mode=True: self.apply(lambda each: each.__dict__.update(training=mode))

    def apply(self, fn):
        for each in self.children():
            each.apply(fn)
        fn(self)
        return self

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, each in self._modules.items():
            yield from each.named_modules(f"{prefix}.{name}" if prefix else name)

    def _named(self, *places):
        """Return parameters or buffers with their names, each once."""
        found = {}
        for prefix, module in self.named_modules():
            for name, each in [each for place in places for each in module.__dict__[place].items()]:
                if each is not None:
                    found.setdefault(id(each), (f"{prefix}.{name}" if prefix else name, each))
        return iter(found.values())

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

    def load_state_dict(self, state_dict, strict=True):
        own, lines = self.state_dict(), []
        for what, left, right in (("Missing", own, state_dict), ("Unexpected", state_dict, own)):
            if strict and (names := [f'"{name}"' for name in left if name not in right]):
                lines.append(f"{what} key(s) in state_dict: {', '.join(names)}. ")
        for name in [name for name in own if name in state_dict]:
            given, mine = state_dict[name], own[name]
            if mine._shape == given._shape:
                mine.copy_(given)
            else:
                text = f"size mismatch for {name}: copying a param with shape {given.shape} from checkpoint, "
                lines.append(f"{text}the shape in current model is {mine.shape}.")
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

    __len__, __iter__ = lambda self: len(self._modules), lambda self: self.children()
    __getitem__ = lambda self, at: list(self)[at]
    append = lambda self, part: self._modules.__setitem__(str(len(self)), part)


class ModuleList(Sequential):
    __init__ = lambda self, modules=(): Sequential.__init__(self, *modules)

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

    generate_square_subsequent_mask = staticmethod(
        lambda sz, device=None, dtype=None: torch.triu(torch.full((sz, sz), -math.inf, dtype, device), 1)
    )


class Layer(Module):
    """A layer as the table has it: its options, parameters and parts, what is printed of them, and what computes it."""

    def __init__(self, *args, **more):
        super().__init__()
        self.options = own = bind(type(self).__name__, self.about, args, more)
        device, dtype = own.pop("device", None), own.pop("dtype", None)
        if own.get("stride", 1) is None:
            own["stride"] = own["kernel_size"]
        own.update({name: pair(own[name]) for name in self.about.get("pairs", "").split()})
        own.update({name: sizes((own[name],)) for name in ("normalized_shape",) if name in own})
        self.__dict__.update({name: value for name, value in own.items() if name != "bias"})
        with placed(device, dtype):
            self._build(own)

    def _build(self, own):
        """Make parameters, buffers and parts."""
        shapes = {name: self._shape(words) for name, words in self.about.get("weights", {}).items()}
        for at, name in product(range(1, own.get("num_layers", 1)), tuple(shapes)):
            shapes[f"{name[:-1]}{at}"] = shapes[name.replace("_ih_", "_hh_")]
        self._fill(shapes)
        for name, words in self.about.get("kept", {}).items():
            self._buffers[name] = (torch.ones if "var" in name else torch.zeros)(self._shape(words))
        for name, (kind, *given) in ((name, words.split()) for name, words in self.about.get("parts", {}).items()):
            self.__dict__.pop(name, None)
            self._modules[name] = getattr(torch.nn, kind)(*(own[each] for each in given))
        if isinstance(own.get("activation"), Module):
            self._modules["activation"] = own["activation"]

    def _shape(self, words):
        """Return a shape by the options that it consists of: ``3*hidden_size input_size``."""
        found = []
        for word in words.split():
            times, _, name = word.rpartition("*")
            name, _, share = name.partition("/")
            value = self.options[name]
            found += value if isinstance(value, tuple) else [int(times or 1) * value // self.options.get(share, 1)]
        return tuple(found)

    def _fill(self, shapes):
        """Make the parameters of some shapes."""
        bound = math.prod(next(iter(shapes.values()), ())[1:]) ** -0.5
        for name, shape in shapes.items():
            kind = "zeros" if self.about["fill"] == "ones" and name == "bias" else self.about["fill"]
            options = ("elementwise_affine", "bias") if "bias" in name else ("elementwise_affine",)
            wanted = all(self.options.get(each, True) for each in options)
            values = _between(shape, bound) if kind == "uniform" else getattr(torch, kind)(shape)
            self._parameters[name] = Parameter(values) if wanted else None

    def forward(self, *args, **more):
        if "computes" not in self.about:
            return self._estimated(*args, *more.values())
        name, *passed = self.about["computes"].split()
        return getattr(F, name)(*args, **more, **{each: getattr(self, each) for each in passed})

    def _estimated(self, x, *others):
        """Return what is computed with all of the parameters at each place of a sequence."""
        own = tuple(self.parameters())
        flops = 2.0 * math.prod(x._shape[:-1]) * sum(each.numel() for each in own)
        shape = *x._shape[:-1], self.options.get("hidden_size", x._shape[-1])
        found = F.estimate(type(self).__name__, (x, *own), shape, flops)
        if "hidden_size" not in self.options:
            return (found, None) if "num_heads" in self.options else found
        batch = x._shape[0 if self.batch_first else 1]
        return found, F.estimate("Gru", (found,), (self.num_layers, batch, self.hidden_size), 0)

    def extra_repr(self):
        own, shown = self.about, self.options
        text = own.get("shown", ", ".join(f"{name}={{{name}}}" for name in shown))
        if own.get("changed"):
            changed = [name for name, value in own["usual"].items() if shown.get(name) not in (fixed(value), None)]
            text += "".join(f", {name}={{{name}}}" for name in changed if f"{{{name}" not in text)
        return text.removeprefix(", ").format_map(shown)


for name, about in NAMES["layers"].items():
    globals()[name] = type(name, (Layer,), {"__module__": "torch.nn", "about": about})


_between = lambda shape, bound: drawn("uniform", shape, state.default, None, -bound, bound)


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


fileless(
    "torch.nn.init", zeros_=_filled(torch.zeros_like), ones_=_filled(torch.ones_like),
    constant_=_filled(torch.full_like), normal_=_filled(lambda x, mean=0.0, std=1.0: torch.randn_like(x) * std + mean),
    xavier_uniform_=_filled(lambda x, gain=1.0: _between(x._shape, gain * math.sqrt(6 / sum(x._shape[:2])))),
    kaiming_normal_=_filled(lambda x: torch.randn_like(x) * math.sqrt(2 / math.prod(x._shape[1:]))),
    kaiming_uniform_=_filled(lambda x: _between(x._shape, math.sqrt(6 / math.prod(x._shape[1:])))),
)  # fmt: skip
fileless("torch.nn.utils", clip_grad_norm_=clip_grad_norm_)
