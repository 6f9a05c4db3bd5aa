"""Writes ``tags.json``: what the models do not tell of the types in ``types.json``, read from Go's struct tags.

``python -m deploy.testcluster.tables.generate_tags API_MODULE_DIR APIMACHINERY_MODULE_DIR [MODULE_DIR...]``; the last
are apiextensions-apiserver and kube-aggregator, whose kinds have their own modules. For each type: ``merge`` (the
merge keys of its lists, ``primitive`` for a list of scalars that merges as a set), ``structs`` (objects that are
always there, because they are no pointers), ``omitted`` (scalars left out where they are zero), ``written`` (scalars
that are not), ``quantities``, ``int64``, ``go`` (what Go calls a type that has a name and is no struct). What the
server says of owners of lists and maps comes from ``openapi.json``: ``keys`` (of lists whose entries have owners of
their own), ``sets``, ``atomic`` (maps and objects with one owner).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kubesim.schema.facts import PRIMITIVE, TAGS
from kubesim.schema.openapi_table import EXTENSION, Schema, known, schema_of
from kubesim.schema.types import TYPES

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
NAMED = re.compile(r"^type (\w+) ((?:\[\]|map\[\w+\])?[\w.]+)\s*$", re.M)
INLINE = re.compile(r'^\s+([\w.]+)\s+`json:",inline"', re.M)
FIELD = re.compile(r'^\s+(?:\w+\s+)?([\w\[\]\.\*]+)\s+`json:"(\w+)([^"]*)"([^`]*)`', re.M)
SCALARS = ("string", "bool", "int32", "int64", "int", "float64")
OWN_JSON = ("Time", "MicroTime", "Quantity", "IntOrString", "Duration", "RawExtension", "FieldsV1")
PACKAGES = {"metav1": "v1", "corev1": "v1", "apiv1": "v1"}
"""Go's names of packages that are imported under another name."""
NAMES: set[str] = {"UID", "NodeName"}
"""Types of all packages that have a name and are no structs."""
Facts = dict[str, Any]


class Package:
    """The types of one Go package."""

    def __init__(self, folder: Path, group: str) -> None:
        paths = [path for path in sorted(folder.glob("*.go")) if not path.name.startswith(("generated", "zz_"))]
        text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        self.structs: dict[str, str] = dict(STRUCT.findall(text))
        self.named: dict[str, str] = dict(NAMED.findall(text))
        NAMES.update(self.named)
        self.group = group
        self.version = folder.name.capitalize()

    def model(self, name: str, known: set[str]) -> str:
        """Return the name of a type in ``types.json``, which carries the group where two groups share a name."""
        named = (f"{self.group}{self.version}{name}", f"{self.version}{name}")
        return next((found for found in named if found in known), "")

    def facts(self, name: str, meta: Package) -> Facts:
        """Return what the tags of one struct say."""
        facts: Facts = {
            "merge": {},
            "structs": [],
            "omitted": [],
            "quantities": [],
            "int64": [],
            "written": [],
            "go": {},
        }
        wanted = [name]
        while wanted:
            body = self.structs.get(wanted.pop(), "")
            wanted += INLINE.findall(body)
            for kind, field, options, tags in FIELD.findall(body):
                self._read(facts, kind, field, options, tags, meta)
        return {key: value for key, value in facts.items() if value}

    def _read(self, facts: Facts, kind: str, field: str, options: str, tags: str, meta: Package) -> None:
        key = re.search(r'patchMergeKey:"(\w+)"', tags)
        merge, structs, omitted, quantities, int64, written, go = facts.values()
        assert isinstance(merge, dict)
        assert isinstance(go, dict)
        if named := self._named(kind.lstrip("*")):
            go[field] = named
        if "merge" in (re.search(r'patchStrategy:"([\w,]+)"', tags) or ["", ""])[1].split(","):
            merge[field] = key[1] if key else PRIMITIVE
        bare = kind.lstrip("*")
        resolved = self.named.get(bare, bare)
        inner = resolved.rpartition("]")[2].rpartition(".")[2]
        if inner in ("Quantity", "ResourceList"):
            quantities.append(field)
        if inner == "int64":
            int64.append(field)
        if kind.startswith(("*", "[", "map")) or "[" in resolved or inner in (*OWN_JSON, "ResourceList", "TypeMeta"):
            return
        if resolved in SCALARS or inner in ("UID", "NodeName"):
            (omitted if "omitempty" in options else written).append(field)
        elif (inner in self.structs or inner in meta.structs or "." in bare) and "omitzero" not in options:
            structs.append(field)

    def _named(self, kind: str) -> str:
        """Return a field's type as Go's JSON decoder names it, where that is no struct's and no plain one's."""
        inner = kind.rpartition("]")[2].lstrip("*")
        key = kind.rpartition("]")[0].rpartition("[")[2]
        elsewhere = inner.rpartition(".")[2] if "." in inner else ""
        if not {inner, key} & self.named.keys() and (elsewhere in OWN_JSON or elsewhere not in NAMES):
            return ""
        return re.sub(r"[A-Za-z][\w.]*", self._qualified, kind.replace("*", ""))

    def _qualified(self, found: re.Match[str]) -> str:
        package, _, name = found[0].rpartition(".")
        if package:
            return f"{PACKAGES.get(package, package)}.{name}"
        return name if name in (*SCALARS, "map") else f"{self.version.lower()}.{name}"


def owners(schema: Schema) -> Facts:
    """Return what a type's schema says of the owners of its fields."""
    facts: dict[str, Any] = {"keys": {}, "sets": [], "atomic": []}
    for name, field in schema.get("properties", {}).items():
        match field.get(f"{EXTENSION}list-type"):
            case "map":
                facts["keys"][name] = field[f"{EXTENSION}list-map-keys"]
            case "set":
                facts["sets"].append(name)
        inner = [one["$ref"].rpartition("/")[2] for one in (field.get("items") or field).get("allOf", ())]
        marks = [each.get(f"{EXTENSION}map-type") for each in (field, *map(schema_of, inner))]
        if "atomic" in marks:
            facts["atomic"].append(name)
    return {key: value for key, value in facts.items() if value}


def models(full_name: str, names: set[str]) -> Iterator[str]:
    """Yield the name in ``types.json`` of a type that OpenAPI names in full."""
    package, _, kind = full_name.rpartition(".")
    group, _, version = package.rpartition(".")
    for name in (
        f"{group.rpartition('.')[2].capitalize()}{version.capitalize()}{kind}",
        f"{version.capitalize()}{kind}",
    ):
        if name in names:
            yield name
            return


def main() -> None:
    """Read the folders that are named on the command line."""
    api, machinery = Path(sys.argv[1]), Path(sys.argv[2])
    types = set(orjson.loads(TYPES.read_bytes()))
    meta = Package(machinery / "pkg/apis/meta/v1", "")
    folders = [*sorted(api.glob("*/v[12]")), *(f for more in sys.argv[3:] for f in Path(more).glob("pkg/apis/*/v1"))]
    packages = [Package(folder, folder.parent.name.capitalize()) for folder in folders]
    table: dict[str, Facts] = {}
    for package in (meta, *packages):
        for name in package.structs:
            model, facts = package.model(name, types), package.facts(name, meta)
            if model and facts:
                table[model] = facts
    for full_name in sorted(known()):
        for model in models(full_name, types):
            if facts := owners(schema_of(full_name)):
                table[model] = table.get(model, {}) | facts
    TAGS.write_bytes(orjson.dumps(table, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.write(f"{len(table)} types\n")


if __name__ == "__main__":
    main()
