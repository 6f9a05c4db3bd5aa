"""States as Terraform 1.11 writes them: version 4 of the format, and the addresses in them."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from kubesim.terraform.graph import key_text
from kubesim.terraform.instances import Key
from kubesim.terraform.schema import conformed, resource_type
from kubesim.terraform.values import Unknown, convert, plain, type_of

VERSION = "1.11.4"
ADDRESS = re.compile(
    r'(?:module\.([\w-]+)(\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?\.)|((?:data\.)?)([\w-]+)\.([\w-]+)(\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?$'
)


class StateError(Exception):
    """A state that cannot be read."""


@dataclass
class Held:
    """An instance of a resource in a state."""

    module: str
    mode: str
    type: str
    name: str
    key: Key
    attributes: dict[str, Any]
    provider: str = ""
    dependencies: list[str] = field(default_factory=list)
    private: str | None = None
    tainted: bool = False
    schema_version: int = 0
    sensitive: list[Any] = field(default_factory=list)
    before_destroy: bool = False

    @property
    def generic(self) -> str:
        """The address of its resource."""
        begin = f"{self.module}." if self.module else ""
        return f"{begin}{'data.' if self.mode == 'data' else ''}{self.type}.{self.name}"

    @property
    def address(self) -> str:
        """Its address."""
        return f"{self.generic}{key_text(self.key)}"

    @property
    def order(self) -> tuple[Any, ...]:
        """What instances are sorted by."""
        steps = module_steps(self.module)
        key = (isinstance(self.key, str), self.key or (self.key if isinstance(self.key, str) else 0))
        return len(steps), steps, self.mode != "data", self.type, self.name, *key

    @property
    def value(self) -> dict[str, Any]:
        """Its attributes in the kinds of the language."""
        kind = resource_type(self.mode, self.type)
        return conformed(kind.schema, self.attributes) if kind else self.attributes


def module_steps(module: str) -> list[tuple[str, str]]:
    """Return the names of the calls of an address of a module, with the keys as text."""
    return re.findall(r'module\.([\w-]+)(\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?', module)


def parsed_address(text: str) -> tuple[str, str, str, str, Key] | None:
    """Return module, mode, type, name and key of an instance's address; None where it is none."""
    at, module = 0, ""
    while (found := ADDRESS.match(text, at)) is not None:
        if found[4] and found[4] != "module":
            key = json.loads(found[6][1:-1]) if found[6] else None
            return module, "data" if found[3] else "managed", found[4], found[5], key
        module += f"{'.' if module else ''}module.{found[1]}{found[2] or ''}"
        at = found.end()
    return None


@dataclass
class State:
    """A state: instances by address, outputs, and which of its versions it is."""

    instances: dict[str, Held] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    serial: int = 0
    lineage: str = ""

    def sorted(self) -> list[Held]:
        """Return the instances as Terraform lists them."""
        return sorted(self.instances.values(), key=lambda held: held.order)

    def put(self, held: Held) -> None:
        """Keep an instance."""
        self.instances[held.address] = held

    def output_values(self) -> dict[str, Any]:
        """Return the values of the outputs."""
        held = sorted(self.outputs.items())
        return {name: convert(each["value"], each.get("type", "dynamic")) for name, each in held}

    def set_outputs(self, values: dict[str, Any]) -> None:
        """Keep the values of the outputs that are known."""
        held = {name: value for name, value in sorted(values.items()) if not isinstance(value, Unknown | None)}
        self.outputs = {name: {"value": plain(value), "type": type_of(value)} for name, value in held.items()}

    def same_as(self, other: State) -> bool:
        """Tell whether another state says the same."""
        return bool(_body(self) == _body(other))

    def copy(self) -> State:
        """Return a state that can be changed without this one."""
        return parse(dump(self)) if self.lineage or self.instances else State(serial=self.serial)


def _body(state: State) -> Any:
    return json.loads(dump(state))["resources"], state.outputs


def dump(state: State) -> str:
    """Return the text of a state."""
    groups: dict[str, dict[str, Any]] = {}
    for held in state.sorted():
        group: dict[str, Any] = {"module": held.module} if held.module else {}
        group |= {"mode": held.mode, "type": held.type, "name": held.name, "provider": held.provider}
        groups.setdefault(held.generic, {**group, "instances": []})["instances"].append(_instance(held))
    found = {
        "version": 4, "terraform_version": VERSION, "serial": state.serial, "lineage": state.lineage,
        "outputs": state.outputs, "resources": [*groups.values()], "check_results": None,
    }  # fmt: skip
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _instance(held: Held) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if held.key is not None:
        found["index_key"] = held.key
    if held.tainted:
        found["status"] = "tainted"
    found |= {"schema_version": held.schema_version, "attributes": plain(held.attributes)}
    found["sensitive_attributes"] = held.sensitive
    if held.private:
        found["private"] = held.private
    if held.dependencies:
        found["dependencies"] = sorted(held.dependencies)
    if held.before_destroy:
        found["create_before_destroy"] = True
    return found


def parse(text: str | bytes) -> State:
    """Return the state that a text says. Raises StateError."""
    try:
        found = json.loads(text)
        if found["version"] != 4:
            raise StateError(f"state format version {found['version']} is not supported on practice clusters")
        state = State({}, found.get("outputs") or {}, int(found["serial"]), str(found["lineage"]))
        for group in found.get("resources") or ():
            for each in group["instances"]:
                state.put(
                    Held(
                        group.get("module", ""), group["mode"], group["type"], group["name"], each.get("index_key"),
                        each.get("attributes") or {}, group.get("provider", ""), each.get("dependencies") or [],
                        each.get("private"), each.get("status") == "tainted", each.get("schema_version", 0),
                        each.get("sensitive_attributes") or [], bool(each.get("create_before_destroy")),
                    )
                )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StateError("the state is no valid JSON of version 4") from error
    return state


def new_lineage() -> str:
    """Return a name for a new line of states."""
    return str(uuid.uuid4())
