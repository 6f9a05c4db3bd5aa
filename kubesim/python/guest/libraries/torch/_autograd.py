"""Gradients: the steps back from a result, and the way back to the leaves."""

from contextlib import ContextDecorator

import _arrays

from torch._types import state, work


class set_grad(ContextDecorator):
    """torch.no_grad and its relatives."""

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        self.before, state.grad = state.grad, self.wanted

    def __exit__(self, *error):
        state.grad = self.before


class Node:
    """One step back from a result: its parents, and how gradients go to them."""

    def __init__(self, name, parents, back, flops):
        self.name, self.parents, self.back, self.flops = name, parents, back, flops

    __repr__ = lambda self: f"<{self.name} object at 0x7f{id(self) & 0xFFFFFFFF:010x}>"
    next_functions = property(lambda self: tuple((each._node, 0) for each in self.parents))


def unknown(g):
    """Stand for gradients that are estimated, like the result that they are of."""


def record(found, name, parents, back, flops=0.0):
    """Remember how gradients go back from a result."""
    if state.grad and any(each._wants for each in parents):
        found._node, found._wants = Node(name.replace("_", "") + "Backward0", parents, back or unknown, flops), True
    return found


def scattered(g, x, key):
    """Return the gradient of an index: zeros, but where it was."""
    places = _arrays.pick(x._new(x._shape, "int64", range(x.numel())), key)._flat()
    values = [0.0] * x.numel()
    for at, value in zip(places, g._flat(), strict=True):
        values[at] += value
    return x._new(x._shape, x._dtype, values)


def reduced_to(g, shape):
    """Sum a gradient over the dimensions that were broadcast."""
    if g._shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = [at for at in range(g.ndim) if at < extra or shape[at - extra] == 1]
    return g._reduced("sum", axes, True).reshape(shape) if axes else g.reshape(shape)


def backward(root, gradient, retain=False):
    """Let gradients go back to the leaves, each node once all of its results have told theirs."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        tensor, done = stack.pop()
        if done:
            order.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack += [(each, False) for each in (tensor._node.parents if tensor._node else ()) if each._wants]
    gradients = {id(root): gradient}
    with set_grad(False):
        while order:
            tensor = order.pop()
            g = gradients.pop(id(tensor))
            for hook in tensor.hooks:
                changed = hook(g)
                g = g if changed is None else changed
            if tensor._node is None:
                tensor.grad = g.detach() if tensor.grad is None else tensor.grad + g
                continue
            for parent, part in zip(tensor._node.parents, _parts(tensor._node, g, retain), strict=True):
                if part is not None and parent._wants:
                    part = reduced_to(part, parent._shape)
                    gradients[id(parent)] = gradients[id(parent)] + part if id(parent) in gradients else part


def _parts(node, g, retain):
    """Return the gradients of a node's parents: computed, or estimated where they are large."""
    if node.back is None:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
            "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
            "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
            "tensors after calling backward.")  # fmt: skip
    if node.back is not unknown and g._known() and all(each._known() for each in node.parents):
        parts = node.back(g)
    else:
        work(g.device, 2 * node.flops, 0, half=g.itemsize == 2)
        spread = 1e-3 * state.course.noise(0.1)
        parts = [each._guess(each._shape, each._dtype, 0.0, spread) if each._wants else None for each in node.parents]
    if not retain:
        node.back, node.parents = None, ()
    return parts
