"""Plans: what there is, what is wanted, and what has to be done so that they are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesim.terraform import schema
from kubesim.terraform.changes import Change, Options, Provider, attempt, collecting, flag, ignored, within
from kubesim.terraform.config import Item, Module
from kubesim.terraform.decode import Value, decode, differences, ignoring, planned
from kubesim.terraform.diagnostics import Failure, Problem, failure
from kubesim.terraform.evaluate import evaluate
from kubesim.terraform.graph import Instance, World, check, key_text
from kubesim.terraform.instances import Key
from kubesim.terraform.mentions import spelled
from kubesim.terraform.schema import ResourceType, conformed
from kubesim.terraform.state import Held, State, module_steps, parsed_address
from kubesim.terraform.values import Unknown, known

MOST_RESOURCES = 1000


class Planner:
    """Plans one configuration beside one state; knows the values of instances in the meantime."""

    def __init__(
        self,
        root: Module,
        state: State,
        providers: Callable[[Planner, Held], Provider],
        text: Callable[[str], str],
        say: Callable[[str], None],
        folder: str,
        options: Options,
    ) -> None:
        self.config, self.prior, self.options = root, state, options
        self.state = state.copy()
        """What there is now, as far as it has been looked at."""
        self.root, self.text, self.say = folder, text, say
        self.world = World(self)
        self.top = Instance(self.world, root)
        self.changes: dict[str, Change] = {}
        self.drift: dict[str, tuple[Held, Value | None]] = {}
        self.outputs: dict[str, Any] = {}
        self.moves: dict[str, str] = {}
        self._providers = providers
        self.warnings: list[Problem] = []
        self._values: dict[str, Any] = {}
        self._read: set[str] = set()
        self._needs: dict[str, frozenset[str]] = {}

    def provider(self, held: Held) -> Provider:
        """Return the provider of an instance."""
        return self._providers(self, held)

    # ---- the whole

    def plan(self) -> None:
        """Plan everything. Raises Failure."""
        self._move()
        if self.options.destroy:
            self.options.destroy = False
            if self.state.instances:
                self.read_data()
            self.options.destroy = True
            self.changes.clear()
            self._plan_destroy()
            return
        problems: list[Problem] = []
        self._plan_all(problems)
        self._orphans(problems)
        if not problems and not self.options.targets:
            self._plan_outputs(problems)
        if problems:
            raise Failure(*problems)

    def validate(self) -> None:
        """Evaluate everything without a state. Raises Failure."""
        problems: list[Problem] = []
        self._plan_all(problems)
        for module in self.top.everything() if not problems else ():
            for look, names in ((module.local, module.module.locals), (module.output, module.module.outputs)):
                for name in names:
                    with collecting(problems):
                        look(name)
        if problems:
            raise Failure(*problems)

    def find(self, held: Held) -> Item | None:
        """Return the block of an instance; None where the code has none."""
        module = self.config
        for name, _ in module_steps(held.module):
            if name not in module.children:
                return None
            module = module.children[name]
        return module.resources.get((held.mode, held.type, held.name))

    def _plan_all(self, problems: list[Problem]) -> None:
        seen: list[Instance] = [self.top]
        for module in seen:
            for name in module.module.variables:
                with collecting(problems):
                    module.variable(name)
            with collecting(problems):
                for name in module.module.children:
                    seen += module.children(name).values()
            for mode, kind, name in module.module.resources:
                if self._wanted(module, mode, kind, name):
                    with collecting(problems):
                        self._plan_resource(module, mode, kind, name)
        if self.options.targets:
            self._plan_needed(seen)

    def _plan_needed(self, modules: list[Instance]) -> None:
        """Plan every instance of what the targets depend on."""
        needed = frozenset().union(*self._needs.values()) - {
            each.held.generic for each in self.changes.values() if self._targeted(each.held)
        }
        for module in modules:
            for mode, kind, name in module.module.resources:
                if module.generic(mode, kind, name) in needed and mode != "data":
                    module.resource(mode, kind, name)

    def read_data(self) -> None:
        """Read the data sources of the root module, as everything does that evaluates the code."""
        for mode, kind, name in self.config.resources:
            if mode == "data":
                self.top.resource(mode, kind, name)

    def _plan_resource(self, module: Instance, mode: str, kind: str, name: str) -> None:
        if not self.options.targets:
            module.resource(mode, kind, name)
            return
        item = module.module.resources[mode, kind, name]
        for key, bound in module.instances(mode, kind, name).items():
            held = Held(module.address, mode, kind, name, key, {})
            if self._targeted(held):
                self.instance(module, item, mode, kind, key, bound)

    def _wanted(self, module: Instance, mode: str, kind: str, name: str) -> bool:
        generic = Held(module.address, mode, kind, name, None, {}).generic
        return not self.options.targets or any(
            within(generic, target) or within(target, generic) for target in self.options.targets
        )

    def _targeted(self, held: Held) -> bool:
        return not self.options.targets or any(within(held.address, target) for target in self.options.targets)

    def _plan_outputs(self, problems: list[Problem]) -> None:
        for name in self.config.outputs:
            with collecting(problems):
                self.outputs[name] = self.top.output(name)

    def _move(self) -> None:
        for module in self.config.everything():
            way = "".join(f"module.{name}." for name in module.path)
            for item in module.moved:
                begin, end = (way + spelled(item.node(name) or ["root", [], ""]) for name in ("from", "to"))
                for address in [*self.state.instances]:
                    if within(address, begin):
                        self._rename(address, end + address[len(begin) :])

    def _rename(self, old: str, new: str) -> None:
        found = parsed_address(new)
        if found is None or new in self.state.instances:
            return
        held = self.state.instances.pop(old)
        held.module, held.mode, held.type, held.name, held.key = found
        self.state.put(held)
        self.moves[new] = old

    # ---- one instance

    def instance(self, module: Instance, item: Item, mode: str, kind: str, key: Key, bound: dict[str, Any]) -> Any:
        """Return the value of an instance, which is planned if it has not been."""
        held = Held(module.address, mode, kind, item.name, key, {})
        address = held.address
        if address not in self._values:
            if len(self._values) >= MOST_RESOURCES:
                raise failure("too_many_resources", item.file, item.span, item.within, MOST_RESOURCES=MOST_RESOURCES)
            self._values[address], self._needs[address] = self.world.made(
                f"{address} (plan)", lambda: self._instance(module, item, held, bound)
            )
        self.world.needs[-1] |= self._needs[address]
        return self._values[address]

    def _instance(self, module: Instance, item: Item, held: Held, bound: dict[str, Any]) -> Any:
        kind = schema.resource_type(held.mode, held.type)
        assert kind is not None
        self._depend(module, item)
        if self.world.validating:
            self.configured(kind, module, item, bound)
            return {name: Unknown(each) for name, each in schema.type_of_block(kind.schema)[1].items()}
        prior = self.refreshed(held, kind)
        if self.options.refresh_only and held.mode != "data":
            if prior is None and held.address not in self.prior.instances:
                return {name: Unknown() for name in kind.schema.names}
            return prior.value if prior is not None else conformed(kind.schema, None)
        config = self.configured(kind, module, item, bound)
        if held.mode == "data":
            change = self._read_data(held, kind, config)
        else:
            change = self._change(item, held, kind, prior, config)
        change.item, change.module, change.bound = item, module, bound
        change.held.dependencies = sorted(self.world.needs[-1] - {change.held.generic})
        change.held.before_destroy = flag(item, "create_before_destroy")
        self.changes[held.address] = change
        return change.after

    def _depend(self, module: Instance, item: Item) -> None:
        """Plan what a block depends on without a reference, and so do the calls of the modules it is in."""
        node = item.node("depends_on")
        for each in node[2] if node is not None and node[0] == "tuple" else ():
            evaluate(each, module.scope(item))
        if module.call is not None and module.parent is not None:
            self._depend(module.parent, module.call)

    def configured(self, kind: ResourceType, module: Instance, item: Item, bound: dict[str, Any]) -> Value:
        """Return what the code says of an instance. Raises Failure."""
        scope = module.scope(item, **bound)
        if not self.world.validating:
            check(item.conditions, scope, "Resource precondition failed")
        return decode(kind.schema, item.body, scope, item.span)

    def refreshed(self, held: Held, kind: ResourceType) -> Held | None:
        """Return an instance of the state as it is now; None where there is none."""
        found = self.state.instances.get(held.address)
        if found is None or held.mode == "data" or held.address in self._read:
            return found
        self._read.add(held.address)
        if not self.options.refresh:
            return found
        self.say(f"\x1b[0m\x1b[1m{held.address}: Refreshing state... [id={found.attributes.get('id')}]\x1b[0m")
        value = attempt(self.provider(found).read, found, kind, found.value)
        old = found.value
        if value is None:
            del self.state.instances[held.address]
            self.drift[held.address] = (found, None)
            return None
        value = conformed(kind.schema, value)
        if value != old:
            self.drift[held.address] = (found, value)
        found.attributes = value
        return found

    def import_one(self, held: Held, kind: ResourceType, name: str) -> Held:
        """Return an instance with what a provider finds under a name. Raises Failure."""
        provider = self.provider(held)
        begin = attempt(provider.find, held, kind, name)
        self.say(f"\x1b[0m\x1b[1m{held.address}: Refreshing state... [id={begin.get('id') or name}]\x1b[0m")
        value = attempt(provider.read, held, kind, conformed(kind.schema, begin))
        if value is None:
            raise failure("cannot_import_nonexistent_remote_object", address=held.address)
        held.attributes, held.private = conformed(kind.schema, value), provider.private(kind)
        self.state.put(held)
        self._read.add(held.address)
        return held

    def _read_data(self, held: Held, kind: ResourceType, config: Value) -> Change:
        if not known(config):
            after = self.provider(held).complete(kind, planned(kind.schema, config, None), None)
            return Change(held, "read", None, after, reason="config refers to values not yet known")
        self.say(f"\x1b[0m\x1b[1m{held.address}: Reading...\x1b[0m\x1b[0m")
        value = attempt(self.provider(held).read, held, kind, config)
        if value is None:
            value = {**config, "id": None}
        held.attributes = conformed(kind.schema, value)
        self.say(f"\x1b[0m\x1b[1m{held.address}: Read complete after 0s [id={held.attributes.get('id')}]\x1b[0m")
        self.state.put(held)
        return Change(held, "no-op", held.attributes, held.attributes)

    def _change(self, item: Item, held: Held, kind: ResourceType, prior: Held | None, config: Value) -> Change:
        provider = self.provider(prior or held)
        before = prior.value if prior is not None and not prior.tainted else None
        if before is not None:
            config = ignoring(config, before, ignored(item))
        after = provider.complete(kind, planned(kind.schema, config, before), before)
        if prior is None:
            return Change(held, "create", None, after)
        found = Change(prior, "no-op", prior.value, after, moved=self.moves.get(held.address, ""))
        changed = [*differences(kind.schema, after, before)] if before is not None else []
        found.paths = [path for path, fixed in changed if fixed]
        if prior.tainted or found.paths or held.address in self.options.replace:
            found.action = "replace"
            found.after = provider.complete(kind, planned(kind.schema, config, None), None)
            found.reason = "must be replaced" if found.paths or prior.tainted else "will be replaced, as requested"
            self._protect(item, prior)
        elif changed:
            found.action = "update"
        else:
            found.after = prior.value
        return found

    def _protect(self, item: Item | None, held: Held) -> None:
        if item is not None and flag(item, "prevent_destroy"):
            raise failure("instance_cannot_be_destroyed", item.file, item.span, address=held.address)

    # ---- what is no longer wanted

    def _orphans(self, problems: list[Problem]) -> None:
        for held in self.state.sorted():
            if held.address in self.changes or held.mode == "data" or not self._targeted(held) or problems:
                continue
            if self.options.refresh_only and held.address in self._read:
                continue
            kind = schema.resource_type(held.mode, held.type)
            if kind is None:
                problems += failure("unsupported_resource_type", type=held.type, address=held.address).problems
                continue
            found = self.refreshed(held, kind)
            if found is not None and not self.options.refresh_only:
                self.changes[held.address] = Change(found, "delete", found.value, None, reason=self._why_gone(found))

    def _why_gone(self, held: Held) -> str:
        item = self.find(held)
        if held.module not in {each.address for each in self.top.everything()}:
            return f"because {held.module} is not in configuration"
        if item is None:
            return f"because {held.type}.{held.name} is not in configuration"
        wanted = {type(None): "", int: "count", str: "for_each"}[type(held.key)]
        used = next((word for word in ("count", "for_each") if word in item.body["attrs"]), "")
        if wanted == used == "count":
            return f"because index [{held.key}] is out of range for count"
        if wanted == used:
            return f"because key {key_text(held.key)} is not in for_each map"
        return f"because resource {f'does not use {wanted}' if wanted else f'uses {used}'}"

    def _plan_destroy(self) -> None:
        problems: list[Problem] = []
        for held in self.state.sorted():
            kind = schema.resource_type(held.mode, held.type)
            if kind is None or held.mode == "data" or not self._targeted(held) and not self._needs_targeted(held):
                continue
            found = self.refreshed(held, kind)
            item = self.find(held)
            with collecting(problems):
                self._protect(item, held)
            if found is not None:
                self.changes[held.address] = Change(found, "delete", found.value, None, item=item)
        if problems:
            raise Failure(*problems)

    def _needs_targeted(self, held: Held) -> bool:
        targets = {each.generic for each in self.state.instances.values() if self._targeted(each)}
        return bool(targets & {*held.dependencies}) if self.options.targets else True

    def settle(self, change: Change, value: Value | None) -> None:
        """Take note of what an instance has become."""
        self._values[change.address] = value
        self.world.version += 1
        if value is None:
            self.state.instances.pop(change.address, None)
            return
        change.held.attributes, change.held.tainted = value, False
        self.state.put(change.held)
