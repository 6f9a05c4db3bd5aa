"""Plans and states as text: one renderer of values, for what is made, changed, destroyed, or merely shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from kubesim.terraform.changes import Change
from kubesim.terraform.decode import differences
from kubesim.terraform.diagnostics import said
from kubesim.terraform.plan import Planner
from kubesim.terraform.rows import sequences, sets
from kubesim.terraform.schema import Block, resource_type
from kubesim.terraform.state import Held, State
from kubesim.terraform.values import Map, Set, Unknown, hcl, quoted

SHADES = {"+": "32", "-": "31", "~": "33", "<=": "36"}
GRAY, RESET, END = "\x1b[90m", "\x1b[0m", "\x1b[0m\x1b[0m"
IMPORTANT = ("id", "name", "tags")
TITLES = {
    "create": "will be created", "update": "will be updated in-place", "delete": "will be destroyed",
    "read": "will be read during apply",
    "replace": "must be replaced", "no-op": "has moved to",
}  # fmt: skip
SYMBOLS = {"create": "+", "update": "~", "delete": "-", "no-op": " "}
LEGEND = {
    "create": ("  +", "create"), "update": ("  ~", "update in-place"), "delete": ("  -", "destroy"),
    "replace": ("-/+", "destroy and then create replacement"),
    "first": ("+/-", "create replacement and then destroy"), "read": (" <=", "read (data resources)"),
}  # fmt: skip
LINE = f"{GRAY}\n─────────────────────────────────────────────────────────────────────────────\x1b[0m\n\n"
Lines = Iterator[str]
_Null: Any = type("Null", (), {})()
"""An empty text in a list, which Terraform shows as it shows null."""


def mark(symbol: str) -> str:
    """Return the symbol of a line, in its colour."""
    return _marked(symbol, END)


def arrow() -> str:
    """Return what stands between what is and what will be."""
    return f"\x1b[33m->{END}"


def comment(count: int, word: str) -> str:
    """Return how many things are not shown."""
    return f"{GRAY}# ({count} unchanged {word}{'' if count == 1 else 's'} hidden){END}"


def action_of(before: Any, after: Any) -> str:
    """Return what happens to a value."""
    if before is None and after is None:
        return "no-op"
    if before is None:
        return "create"
    if after is None:
        return "delete"
    alike = before == after and isinstance(before, bool) == isinstance(after, bool)
    return "no-op" if before is after or (alike and not isinstance(after, Unknown)) else "update"


class Renderer:
    """Renders one resource; ``show`` renders what is, without symbols."""

    def __init__(self, *, show: bool = False, paths: list[tuple[Any, ...]] | None = None) -> None:
        self.show, self.paths = show, {*(paths or ())}

    def line(self, depth: int, symbol: str, text: str) -> str:
        """Return a line at a depth."""
        if self.show:
            return f"{' ' * (4 * depth)}{text}"
        return f"{' ' * (4 * depth + 2)}{mark(symbol or ' ')} {text}"

    def closing(self, depth: int, text: str) -> str:
        """Return a line that ends what was begun at a depth."""
        return f"{' ' * (4 * depth + (0 if self.show else 4))}{text}"

    def block(self, block: Block, before: Any, after: Any, depth: int, path: tuple[Any, ...] = ()) -> Lines:
        """Yield the lines inside of a block."""
        computed = [name for name, inner in block.blocks.items() if inner.mode == "computed"]
        names = sorted([*block.attributes, *computed])
        held = {name: ((before or {}).get(name), (after or {}).get(name)) for name in names}
        held = {name: pair for name, pair in held.items() if pair != (None, None)}
        width, hidden = max(map(len, held), default=0), 0
        for name, (old, new) in held.items():
            old, new = _shown(old, new)
            important = name in IMPORTANT and before is not None and after is not None
            if action_of(old, new) == "no-op" and not self.show and not important:
                hidden += 1
                continue
            yield from self.value(f"{name:<{width}} = ", old, new, depth, (*path, name) in self.paths)
        if hidden:
            yield self.closing(depth, comment(hidden, "attribute"))
        yield from self._blocks(block, before, after, depth, path, apart=bool(held))

    def _blocks(
        self, block: Block, before: Any, after: Any, depth: int, path: tuple[Any, ...], *, apart: bool
    ) -> Lines:
        hidden = 0
        for name in sorted(block.blocks):
            inner = block.blocks[name]
            if inner.mode == "computed":
                continue
            lines: list[str] = []
            for at, (old, new) in enumerate(_pairs(inner, (before or {}).get(name), (after or {}).get(name))):
                if not self.show and old is not None and new is not None and _same(inner, old, new):
                    hidden += 1
                    continue
                lines += self._one(name, inner, old, new, depth, (*path, name, at))
            if lines:
                if apart:
                    yield ""
                yield from lines
        if hidden:
            yield ""
            yield self.closing(depth, comment(hidden, "block"))

    def _one(self, name: str, block: Block, old: Any, new: Any, depth: int, path: tuple[Any, ...]) -> Lines:
        if isinstance(new, Unknown):
            yield self.line(depth, "+" if old is None else "~", f"{name} (known after apply)")
            return
        symbol = SYMBOLS["create" if old is None else "delete" if new is None else "update"]
        forced = path[:-1] in self.paths or path in self.paths
        yield self.line(depth, symbol, f"{name} {{{_forced(forced)}")
        yield from self.block(block, old, new, depth + 1, path)
        yield self.closing(depth, "}")

    def value(
        self, head: str, old: Any, new: Any, depth: int, forced: bool = False, *, nested: bool = False
    ) -> Lines:
        """Yield the lines of a value; ``nested`` in something that says already that it goes."""
        action = action_of(old, new)
        symbol = SYMBOLS[action]
        end = f" {GRAY}-> null{END}" if action == "delete" and not nested else ""
        shown = new if action != "delete" else old
        other_kind = old is not None and new is not None and not isinstance(old, list | dict)
        if not isinstance(shown, list | dict) or other_kind:
            yield from self._plain(head, old, new, depth, symbol, end, forced)
        elif not shown and not (isinstance(old, list | dict) and old and action == "update"):
            text = "[]" if isinstance(shown, list) else "{}"
            yield self.line(depth, symbol, f"{head}{text}{end}{_forced(forced)}")
        else:
            opening, close = "[]" if isinstance(shown, list) else "{}"
            yield self.line(depth, symbol, f"{head}{opening}{_forced(forced)}")
            inside = self._list if isinstance(shown, list) else self._dict
            yield from inside(old, new, depth + 1, action)
            yield self.closing(depth, f"{close}{end}")

    def _plain(self, head: str, old: Any, new: Any, depth: int, symbol: str, end: str, forced: bool) -> Lines:
        shown = old if new is None else new
        if isinstance(shown, str) and "\n" in shown:
            yield self.line(depth, symbol, f"{head}<<-EOT{_forced(forced)}")
            gone = old.rstrip("\n").split("\n") if isinstance(old, str) and old != shown else []
            for line in (each for each in gone if each not in shown.split("\n")):
                yield self.line(depth + 1, "-", line)
            for line in shown.rstrip("\n").split("\n"):
                yield self.line(depth + 1, "+" if gone and line not in gone else " ", line)
            yield self.closing(depth, f"EOT{end}")
            return
        text = f"{_text(old)} {arrow()} {_text(new)}" if symbol == "~" else f"{_text(shown)}{end}"
        yield self.line(depth, symbol, f"{head}{text}{_forced(forced)}")

    def _dict(self, old: Any, new: Any, depth: int, action: str) -> Lines:
        before, after = old if isinstance(old, dict) else {}, new if isinstance(new, dict) else {}
        typed = isinstance(new if new is not None else old, Map)
        keys = sorted({**before, **after})
        names = {key: quoted(key) if typed or not key.replace("-", "_").isidentifier() else key for key in keys}
        width, hidden = max(map(len, names.values()), default=0), 0
        for key, name in names.items():
            pair = before.get(key), after.get(key)
            if action_of(*pair) == "no-op" and not self.show:
                hidden += pair != (None, None)
                continue
            yield from self.value(f"{name:<{width}} = ", *pair, depth, nested=action == "delete" or not typed)
        if hidden:
            yield self.closing(depth - 1, "    " + comment(hidden, "element" if typed else "attribute"))

    def _list(self, old: Any, new: Any, depth: int, action: str) -> Lines:
        before, after = [*(old if isinstance(old, list) else ())], [*(new if isinstance(new, list) else ())]
        rows = sets(before, after) if isinstance(new if new is not None else old, Set) else sequences(before, after)
        hidden = 0
        for at, (one, other, kept) in enumerate(rows):
            one, other = (_Null if value == "" and isinstance(value, str) else value for value in (one, other))
            near = not isinstance(new, Set) and any(
                not rows[each][2] for each in (at - 1, at + 1) if 0 <= each < len(rows)
            )
            if kept and not self.show and not near:
                hidden += 1
                continue
            if hidden:
                yield self.closing(depth - 1, "    " + comment(hidden, "element"))
                hidden = 0
            *lines, last = self.value("", one, other, depth, nested=True)
            yield from [*lines, f"{last},"]
        if hidden:
            yield self.closing(depth - 1, "    " + comment(hidden, "element"))


def _same(block: Block, old: Any, new: Any) -> bool:
    return all(action_of(*_shown(old.get(name), new.get(name))) == "no-op" for name in block.attributes) and all(
        _same_blocks(inner, old.get(name), new.get(name)) for name, inner in block.blocks.items()
    )


def _shown(*values: Any) -> list[Any]:
    """Return values as a block shows them: an empty text is as good as none."""
    return [None if isinstance(value, str) and not value else value for value in values]


def _same_blocks(block: Block, old: Any, new: Any) -> bool:
    return all(
        one is not None and other is not None and not isinstance(other, Unknown) and _same(block, one, other)
        for one, other in _pairs(block, old, new)
    )


def _pairs(block: Block, old: Any, new: Any) -> list[tuple[Any, Any]]:
    if isinstance(new, Unknown):
        return [(None, new)]
    if block.mode in ("single", "computed"):
        return [(old, new)] if (old or new) else []
    before, after = [*(old or ())], [*(new or ())]
    if block.mode == "set":
        found: list[tuple[Any, Any]] = []
        for item in before:
            twin = next((other for other in after if not [*differences(block, other, item)]), None)
            if twin is not None:
                after.remove(twin)
            found.append((item, twin))
        return [*found, *((None, item) for item in after)]
    return [*zip_longest(before, after)]


def _text(value: Any) -> str:
    return f"{GRAY}null{END}" if value is None or value is _Null else hcl(value)


def _forced(forced: bool) -> str:
    return f" \x1b[31m# forces replacement{END}" if forced else ""


# ---- whole plans


def plan_text(planner: Planner) -> str:
    """Return what a plan says, from the legend on."""
    changes, outputs = _visible(planner), output_changes(planner)
    if planner.options.refresh_only:
        return _drift_text(planner) + _outputs_text(outputs, planner, only=True)
    if not changes and not outputs:
        why = "no_objects_need" if planner.options.destroy else "your_infrastructure_matches"
        return said(f"no_changes_{why}")
    text = ""
    acted = [each for each in changes if each.action != "no-op"]
    if acted:
        text += said("terraform_used_the_selected_providers") + _legend(changes)
    if changes:
        shown = "".join(f"{_change(each)}\n\n" for each in changes)
        text += f"\nTerraform will perform the following actions:\n\n{shown}"
        text += f"\x1b[1mPlan:\x1b[0m {_counts(acted)}\n\x1b[0m"
    return text + _outputs_text(outputs, planner, only=not changes)


def partial_text(planner: Planner) -> str:
    """Return what had been planned when something went wrong."""
    changes = _visible(planner)
    if not changes:
        return ""
    head = said("terraform_used_the_selected_providers") + _legend(changes) + said("partial")
    return head + "\n\n".join(map(_change, changes)) + "\n"


def _visible(planner: Planner) -> list[Change]:
    found = [each for each in planner.changes.values() if each.action != "no-op" or each.moved]
    return sorted(found, key=lambda each: each.held.order)


def _legend(changes: list[Change]) -> str:
    used = {"first" if each.action == "replace" and each.first_new else each.action for each in changes}
    shown = [pair for name, pair in LEGEND.items() if name in used]
    return "".join(f"{_marked(sign, RESET)} {text}\x1b[0m\n" for sign, text in shown)


def _marked(sign: str, end: str) -> str:
    """Return the symbols of a resource in their colours."""
    return re.sub(r"<=|[-+~]", lambda found: f"\x1b[{SHADES[found[0]]}m{found[0]}{end}", sign)


def _counts(changes: list[Change]) -> str:
    count = Counter(each.action for each in changes)
    added, gone = count["create"] + count["replace"], count["delete"] + count["replace"]
    return f"{added} to add, {count['update']} to change, {gone} to destroy."


def _change(change: Change) -> str:
    held = change.held
    title = TITLES[change.action]
    if change.action == "replace":
        title = f"{'is tainted, so ' if held.tainted else ''}\x1b[1m\x1b[31m{change.reason}{END}"
    elif change.action == "delete":
        title = f"will be \x1b[1m\x1b[31mdestroyed{END}"
    head = f"\x1b[1m  # {change.address}\x1b[0m {title}"
    if change.action == "no-op":
        head = f"\x1b[1m  # {change.moved}\x1b[0m has moved to \x1b[1m{change.address}\x1b[0m"
    elif change.moved:
        head += f"\n\x1b[0m  # (moved from {change.moved})"
    if change.reason and change.action in ("delete", "read"):
        head += f"\n\x1b[0m  # ({change.reason})"
    return f"{head}\n\x1b[0m{_body(change)}"


def _body(change: Change) -> str:
    kind = resource_type(change.held.mode, change.held.type)
    assert kind is not None
    word = "data" if change.held.mode == "data" else "resource"
    name = "first" if change.action == "replace" and change.first_new else change.action
    sign = _marked(LEGEND[name][0], END) if name in LEGEND else "   "
    lines = [f'{sign} {word} "{change.held.type}" "{change.held.name}" {{']
    lines += Renderer(paths=change.paths).block(kind.schema, change.before, change.after, 1)
    return "\n".join([*lines, "    }"])


def output_changes(planner: Planner) -> dict[str, tuple[Any, Any]]:
    """Return the outputs that change, with what they were and will be."""
    before = planner.prior.output_values()
    if planner.options.targets:
        return {}
    after = {} if planner.options.destroy else planner.outputs
    found = {name: (before.get(name), after.get(name)) for name in sorted({**before, **after})}
    return {name: pair for name, pair in found.items() if action_of(*pair) != "no-op"}


def _outputs_text(outputs: dict[str, tuple[Any, Any]], planner: Planner, *, only: bool) -> str:
    if not outputs:
        return ""
    renderer, width = Renderer(), max(map(len, {**planner.prior.outputs, **planner.outputs, **outputs}))
    lines = [line[4:] for name, pair in outputs.items() for line in renderer.value(f"{name:<{width}} = ", *pair, 1)]
    text = "\nChanges to Outputs:\n" + "".join(f"{line}\n" for line in lines)
    if only:
        text += said("you_can_apply_this_plan")
    return text


def _drift_text(planner: Planner) -> str:
    parts = []
    for held, value in sorted(planner.drift.values(), key=lambda pair: pair[0].order):
        old = planner.prior.instances.get(held.address)
        kind = resource_type(held.mode, held.type)
        if old is None or kind is None:
            continue
        change = Change(held, "delete" if value is None else "update", old.value, value)
        head = f"\x1b[1m  # {held.address}\x1b[0m has {'been deleted' if value is None else 'changed'}"
        parts.append(f"{head}\n\x1b[0m{_body(change)}\n\n")
    if not parts:
        return said("no_changes_your_infrastructure_still")
    return said("note_objects_have_changed_outside") + "".join(parts) + said("this_is_a_refreshonly_plan")


def state_text(state: State) -> str:
    """Return what ``show`` says of a state."""
    parts, module = [], ""
    for held in state.sorted():
        gap, tainted = "\n" * (held.module != module), " (tainted)" if held.tainted else ""
        parts.append(f"{gap}# {held.address}:{tainted}\n{instance_text(held)}\n")
        module = held.module
    text = "\n".join(parts)
    outputs, renderer = state.output_values(), Renderer(show=True)
    if outputs:
        text += "\n\nOutputs:\n\n"
    for name, value in outputs.items():
        text += "".join(f"{line}\n" for line in renderer.value(f"{name} = ", value, value, 0))
    return text if parts or outputs else "The state file is empty. No resources are represented.\n"


def instance_text(held: Held) -> str:
    """Return what ``show`` says of an instance."""
    kind, value = resource_type(held.mode, held.type), held.value
    word = "data" if held.mode == "data" else "resource"
    if kind is None:
        return f'{word} "{held.type}" "{held.name}" {{}}'
    lines = Renderer(show=True).block(kind.schema, value, value, 1)
    return "\n".join([f'{word} "{held.type}" "{held.name}" {{', *lines, "}"])


def outputs_list(state: State) -> str:
    """Return outputs as they are listed after an apply; another Terraform may have kept sensitive ones."""
    return "".join(
        f"{name} = {'<sensitive>' if state.outputs[name].get('sensitive') else hcl(value)}\n"
        for name, value in state.output_values().items()
    )
