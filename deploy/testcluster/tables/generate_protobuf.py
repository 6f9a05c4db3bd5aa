"""Writes ``protobuf.json``: field numbers, types and names of the API's messages, read from Go's struct tags.

Run it when the API version of kubesim moves on:

    python -m deploy.testcluster.tables.generate_protobuf API_MODULE_DIR APIMACHINERY_MODULE_DIR EXTENSIONS_DIR \
        AGGREGATOR_DIR > kubesim/api/protobuf.json

(the directories of the modules k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator).

A field is ``[name, type]``. Types: ``string int bool bytes double``, a scalar with a JSON form of its own
(``Time`` ...), or ``package.Message``; before it ``[]`` means repeated, ``{}`` a map from strings, ``~`` fields
that JSON has in the parent object, ``?`` that a zero value is kept (Go: a pointer, or no omitempty).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

GROUPS = ("core", "apps", "batch", "rbac", "authentication", "authorization", "policy", "scheduling", "coordination",
          "networking", "storage", "autoscaling", "discovery", "events", "certificates", "admissionregistration",
          "node", "flowcontrol", "resource")  # fmt: skip
DOMAINS = {
    "core": "",
    "rbac": "rbac.authorization.k8s.io",
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    **{name: name for name in ("apps", "batch", "policy", "autoscaling")},
}
SPECIAL = {"resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString", "runtime.RawExtension": "Raw",
           "meta.Time": "Time", "meta.MicroTime": "MicroTime", "meta.FieldsV1": "Raw", "meta.Duration": "Duration",
           "apiextensions.JSON": "Raw", "apiextensions.JSONSchemaPropsOrArray": "SchemaOrArray",
           "apiextensions.JSONSchemaPropsOrBool": "SchemaOrBool",
           "apiextensions.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
           "types.UID": "string", "types.NodeName": "string", "meta.TypeMeta": "TypeMeta"}  # fmt: skip
SCALARS = {"string": "string", "bool": "bool", "int32": "int", "int64": "int", "uint32": "int", "uint64": "int",
           "uint8": "int", "int": "int", "[]byte": "bytes", "float64": "double"}  # fmt: skip
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
ALIAS = re.compile(r"^type (\w+) ([\w\[\]\.]+)\s*$", re.M)
FIELD = re.compile(r'^\s+(?:(\w+)\s+)?([\w\[\]\.\*]+)\s+`json:"([^"]*)"[^`]*?\bprotobuf:"\w+,(\d+),[^"]*"', re.M)
Messages = dict[str, dict[str, list[str]]]


class Sources:
    """The structs and named types of the packages that are read."""

    def __init__(self, api: Path, machinery: Path, extensions: Path, aggregator: Path) -> None:
        self.structs: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self._read("meta", machinery / "pkg/apis/meta/v1")
        self._read("apiextensions", extensions / "pkg/apis/apiextensions/v1")
        self._read("apiregistration", aggregator / "pkg/apis/apiregistration/v1")
        for group in GROUPS:
            for version in ("v2", "v1") if group == "autoscaling" else ("v1",):
                self._read(group + ("2" if version == "v2" else ""), api / group / version)

    def _read(self, package: str, folder: Path) -> None:
        """Take the types of one Go package."""
        for path in sorted(folder.glob("*.go")):
            if path.name.startswith(("generated", "zz_")) or path.name.endswith("_test.go"):
                continue
            text = path.read_text(encoding="utf-8")
            self.structs.update({f"{package}.{name}": body for name, body in STRUCT.findall(text)})
            self.aliases.update({f"{package}.{name}": target for name, target in ALIAS.findall(text)})

    def resolve(self, package: str, go_type: str) -> str:
        """Return the type as the table writes it."""
        go_type = go_type.removeprefix("*")
        if go_type in SCALARS:
            return SCALARS[go_type]
        if go_type.startswith("[]"):
            return "[]" + self.resolve(package, go_type[2:])
        if go_type.startswith("map["):
            return "{}" + self.resolve(package, go_type.split("]", 1)[1])
        name = self._qualified(package, go_type)
        if name in SPECIAL:
            return SPECIAL[name]
        if name in self.aliases:
            target = self.resolve(name.split(".")[0], self.aliases[name])
            return "Strings" if target == "[]string" else target
        return name

    def _qualified(self, package: str, name: str) -> str:
        """Return ``package.Type`` for a type as a file of ``package`` writes it."""
        if "." not in name:
            return f"{package}.{name}"
        alias, plain = name.split(".")
        home = {"metav1": "meta", "v1": "core", "corev1": "core", "apiv1": "core"}.get(alias, alias)
        return f"{home}.{plain}"

    def fields(self, message: str) -> dict[str, list[str]]:
        """Return one message's table."""
        package = message.split(".")[0]
        table = {}
        for go_name, go_type, tag, number in FIELD.findall(self.structs.get(message, "")):
            name, _, options = tag.partition(",")
            inline = "~" if "inline" in options else ""
            keep = "?" if go_type.startswith("*") or (name and "omitempty" not in options) else ""
            table[number] = [name or go_name, inline + keep + self.resolve(package, go_type)]
        return table


def generate(*modules: Path) -> dict[str, object]:
    """Return the whole table: kinds by "apiVersion Kind", and every message they reach."""
    sources = Sources(*modules)
    kinds = {"v1 DeleteOptions": "meta.DeleteOptions"}
    for name, body in sources.structs.items():
        package, kind = name.split(".")
        if "TypeMeta" in body and package != "meta" and not kind.endswith("List"):
            kinds[f"{_api_version(package)} {kind}"] = name
    messages: Messages = {}
    pending = list(kinds.values())
    while pending:
        message = pending.pop()
        if message in messages:
            continue
        messages[message] = sources.fields(message)
        types = (spec.lstrip("~?[]{}") for _, spec in messages[message].values())
        pending += [found for found in types if "." in found]
    return {"kinds": dict(sorted(kinds.items())), "messages": dict(sorted(messages.items()))}


def _api_version(package: str) -> str:
    """Return the apiVersion that a Go package stands for."""
    if package == "core":
        return "v1"
    version = "v2" if package == "autoscaling2" else "v1"
    package = package.rstrip("2")
    return f"{DOMAINS.get(package, package + '.k8s.io')}/{version}"


if __name__ == "__main__":
    json.dump(generate(*map(Path, sys.argv[1:])), sys.stdout, separators=(",", ":"))
