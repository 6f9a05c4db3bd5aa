"""kubectl kustomize, and what ``-k`` means: objects built from a folder with a kustomization."""

from __future__ import annotations

import base64
import copy
import posixpath
import re
from typing import Any

import regex
import yaml

from kubesim.api.patch import json_patch, merge_patch, strategic_patch
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.kubectl import kustomize_names as names
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.texts import to_yaml
from kubesim.shell.machine import Process
from kubesim.shell.patterns import MATCH_S
from kubesim.shell.tools.jq import documents

FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
FIELDS = frozenset(
    (
        *("apiVersion", "kind", "metadata", "resources", "bases", "components", "namespace", "namePrefix"),
        *("nameSuffix", "commonLabels", "labels", "commonAnnotations", "images", "replicas", "patches"),
        *("patchesStrategicMerge", "patchesJson6902", "configMapGenerator", "secretGenerator"),
        *("generatorOptions", "buildMetadata", "sortOptions"),
    )
)
DEEPEST = 20
OLD = {"commonLabels": "labels", "bases": "resources"} | dict.fromkeys(
    ("patchesStrategicMerge", "patchesJson6902"), "patches"
)
FIX = "Run 'kustomize edit fix' to update your Kustomization automatically."


async def kustomize(process: Process, opts: Flags) -> int:
    """Print what a folder's kustomization makes."""
    if len(opts.args) > 1:
        raise KubectlError("error: specify one path to kustomization.yaml")
    builder = Builder(process)
    found = builder.build((opts.args or ["."])[0])
    for each in builder.warnings:
        await process.error(f"# Warning: {each}\n")
    text = "---\n".join(to_yaml(obj) for obj in found)
    path = opts.get("output")
    if not path:
        await process.write(text)
        return 0
    try:
        process.view.write(path, text.encode())
    except FileError as error:
        raise KubectlError(f"error: open {path}: {error.text.lower()}") from error
    return 0


class Builder:
    """One build; ``warnings`` are about fields that are out of use."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.warnings: list[str] = []

    def build(self, folder: str, depth: int = 0) -> list[Obj]:
        """Return the objects of a folder, names of what is generated with their hashes. Raises KubectlError."""
        found, fixed = self._accumulated(self._folder(folder), depth)
        changed = {}
        for obj in found:
            if id(obj) in fixed:
                old = obj["metadata"]["name"]
                obj["metadata"]["name"] = changed[obj["kind"], old] = f"{old}-{names.hashed(obj, '')}"
        names.renamed(found, changed)
        return names.ordered(found)

    def _folder(self, path: str) -> str:
        whole = posixpath.normpath(posixpath.join(self._process.view.cwd, path))
        if self._process.view.find(whole) is None:
            why = f"evalsymlink failure on '{path}' : lstat {whole}: no such file or directory"
            raise KubectlError(f"error: must build at directory: not a valid directory: {why}")
        return whole

    def _read(self, folder: str) -> Obj:
        for name in FILES:
            path = f"{folder}/{name}"
            if self._process.view.find(path) is not None:
                break
        else:
            shown = ", ".join(f"'{name}'" for name in FILES[:2])
            raise KubectlError(f"error: unable to find one of {shown} or '{FILES[2]}' in directory '{folder}'")
        found = self._documents(path)
        whole = found[0] if found else {}
        if not isinstance(whole, dict):
            raise KubectlError("error: invalid Kustomization: json: cannot unmarshal into Go value")
        for key in whole:
            if key not in FIELDS:
                raise KubectlError(f'error: invalid Kustomization: json: unknown field "{key}"')
            if key in OLD and (text := f"'{key}' is deprecated. Please use '{OLD[key]}' instead. {FIX}"):
                self.warnings += [text] if text not in self.warnings else []
        return whole

    def _documents(self, path: str) -> list[Any]:
        try:
            return documents(self._process.view.read(path).decode("utf-8", "replace"))
        except FileError as error:
            raise KubectlError(f"error: open {path}: {error.text.lower()}") from error
        except (yaml.YAMLError, ValueError) as error:
            raise KubectlError(
                f"error: map[string]interface {{}}(nil): yaml: {str(error).splitlines()[0]}"
            ) from error

    def _accumulated(self, folder: str, depth: int) -> tuple[list[Obj], set[int]]:
        """Return a folder's objects, and which of them are to have a hash in their names."""
        if depth > DEEPEST:
            raise KubectlError(f"error: accumulating resources: cycle detected: candidate root '{folder}'")
        rules = self._read(folder)
        found: list[Obj] = []
        fixed: set[int] = set()
        for entry in [*(rules.get("resources") or []), *(rules.get("bases") or [])]:
            more, marked = self._resource(folder, str(entry), depth)
            found, fixed = found + more, fixed | marked
        for kind, part in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
            for entry in rules.get(part) or []:
                self._generate(folder, kind, entry, rules.get("generatorOptions") or {}, found, fixed)
        for entry in rules.get("components") or []:
            self._apply(self._read(f"{folder}/{entry}"), posixpath.normpath(f"{folder}/{entry}"), found)
        self._apply(rules, folder, found)
        return found, fixed

    def _resource(self, folder: str, entry: str, depth: int) -> tuple[list[Obj], set[int]]:
        path = posixpath.normpath(posixpath.join(folder, entry))
        node = self._process.view.find(path)
        if isinstance(node, Directory):
            return self._accumulated(path, depth + 1)
        if node is None:
            why = f"evalsymlink failure on '{path}' : lstat {path}: no such file or directory"
            raise KubectlError(
                f"error: accumulating resources: accumulation err='accumulating resources from '{entry}': {why}': "
                f"must build at directory: not a valid directory: {why}"
            )
        objects = [each for each in self._documents(path) if each]
        for each in objects:
            if not isinstance(each, dict) or not each.get("kind") or not isinstance(each.get("metadata"), dict):
                raise KubectlError(f"error: accumulating resources: missing metadata.name in object in '{entry}'")
        return objects, set()

    def _generate(self, folder: str, kind: str, entry: Obj, options: Obj, found: list[Obj], fixed: set[int]) -> None:
        data = self._data(folder, entry)
        name, how = str(entry.get("name", "")), entry.get("behavior", "create")
        old = next((each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)), None)
        if how in ("merge", "replace"):
            if old is None:
                raise KubectlError(f"error: id resid.ResId{{Name:{name}}} does not exist; cannot merge or replace")
            kept = old.get("data") or {} if how == "merge" else {}
            old["data"] = {**kept, **_held(kind, data)[0]}
            return
        text, binary = _held(kind, data)
        obj: Obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        obj |= ({"data": text} if text else {}) | ({"binaryData": binary} if binary else {})
        obj |= {"type": entry.get("type") or "Opaque"} if kind == "Secret" else {}
        own = {**options, **(entry.get("options") or {})}
        for part in ("labels", "annotations"):
            pairs = {**(options.get(part) or {}), **((entry.get("options") or {}).get(part) or {})}
            obj["metadata"] |= {part: pairs} if pairs else {}
        if entry.get("namespace"):
            obj["metadata"]["namespace"] = entry["namespace"]
        found.append(obj)
        if not own.get("disableNameSuffixHash"):
            fixed.add(id(obj))

    def _data(self, folder: str, entry: Obj) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for text in entry.get("literals") or []:
            key, _, value = str(text).partition("=")
            found[key] = re.sub(r"^(['\"])(.*)\1$", r"\2", value, flags=re.DOTALL).encode()
        for text in entry.get("files") or []:
            key, equals, path = str(text).partition("=")
            found[key if equals else posixpath.basename(key)] = self._bytes(folder, path if equals else key)
        for text in [*(entry.get("envs") or []), *([entry["env"]] if entry.get("env") else [])]:
            for line in self._bytes(folder, str(text)).decode("utf-8", "replace").splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    key, _, value = line.strip().partition("=")
                    found[key] = value.encode()
        return found

    def _bytes(self, folder: str, path: str) -> bytes:
        whole = posixpath.normpath(posixpath.join(folder, path))
        try:
            return self._process.view.read(whole)
        except FileError as error:
            why = f"evalsymlink failure on '{whole}' : lstat {whole}: {error.text.lower()}"
            raise KubectlError(f"error: loading KV pairs: file sources: [{path}]: {why}") from error

    def _apply(self, rules: Obj, folder: str, found: list[Obj]) -> None:
        """Change objects as a kustomization says: patches first, then names, labels, images."""
        for patch in self._patches(rules, folder):
            self._patch(patch, found)
        _rename(rules, found)
        for obj in found:
            names.labelled(obj, rules["commonLabels"], selectors=True, templates=True) if rules.get(
                "commonLabels"
            ) else None
            for each in rules.get("labels") or []:
                both = bool(each.get("includeSelectors"))
                names.labelled(
                    obj, each.get("pairs") or {}, selectors=both, templates=both or bool(each.get("includeTemplates"))
                )
            if rules.get("commonAnnotations"):
                names.annotated(obj, rules["commonAnnotations"])
            for image in rules.get("images") or []:
                names.with_image(obj, image)

    def _patches(self, rules: Obj, folder: str) -> list[Obj]:
        """Return the patches, each with its text and what it is for."""
        found = []
        for each in rules.get("patchesStrategicMerge") or []:
            inline = "\n" in str(each)
            found.append({"patch": each} if inline else {"patch": self._bytes(folder, str(each)).decode()})
        for each in [*(rules.get("patches") or []), *(rules.get("patchesJson6902") or [])]:
            path = each.get("path")
            found.append({**each, "patch": self._bytes(folder, path).decode()} if path else each)
        return found

    def _patch(self, patch: Obj, found: list[Obj]) -> None:
        for body in documents(str(patch.get("patch", ""))):
            wanted = patch.get("target")
            chosen = [obj for obj in found if _meant(obj, wanted if wanted else _id(body))]
            if not chosen and not wanted:
                text = names.called(body if isinstance(body, dict) else {})
                raise KubectlError(
                    f'error: no resource matches strategic merge patch "{text}": no matches for Id {text}; failed to '
                    f"find unique target for patch {text}"
                )
            for obj in chosen:
                _changed(obj, body, found)


def _held(kind: str, data: dict[str, bytes]) -> tuple[dict[str, str], dict[str, str]]:
    if kind == "Secret":
        return {key: base64.b64encode(value).decode() for key, value in data.items()}, {}
    text, binary = {}, {}
    for key, value in data.items():
        try:
            text[key] = value.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(value).decode()
    return text, binary


def _id(body: Any) -> Obj:
    if not isinstance(body, dict):
        raise KubectlError("error: must specify a target for JSON patch")
    metadata = body.get("metadata") or {}
    return {"kind": body.get("kind"), "name": metadata.get("name"), "namespace": metadata.get("namespace")}


def _meant(obj: Obj, target: Obj) -> bool:
    """Tell whether a patch is for an object; its words are regular expressions of the whole."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    metadata = obj["metadata"]
    known = {"kind": obj["kind"], "group": group, "version": version, "name": metadata.get("name")}
    known["namespace"] = metadata.get("namespace") or "default"
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    try:
        same = all(
            regex.fullmatch(str(target[key]), str(value), timeout=MATCH_S)
            for key, value in known.items()
            if target.get(key)
        )
    except (regex.error, TimeoutError):
        return False
    return (
        same and _selected(target.get("labelSelector"), labels) and _selected(target.get("annotationSelector"), notes)
    )


def _selected(selector: str | None, pairs: Obj) -> bool:
    for part in (selector or "").split(","):
        key, equals, value = part.strip().replace("==", "=").partition("=")
        if part and (str(pairs.get(key)) != value if equals else key not in pairs):
            return False
    return True


def _changed(obj: Obj, body: Any, found: list[Obj]) -> None:
    shape = next(
        (
            each.shape
            for each in registry.all()
            if (each.api_version, each.kind) == (obj.get("apiVersion"), obj["kind"])
        ),
        None,
    )
    try:
        if isinstance(body, list):
            after = json_patch(obj, body)
        else:
            name, metadata = obj["metadata"]["name"], {**(body.get("metadata") or {})}
            if body.get("$patch") == "delete":
                found.remove(obj)
                return
            metadata.pop("name", None)
            whole = {**body, "kind": obj["kind"], "metadata": {**metadata, "name": name}}
            after = strategic_patch(obj, whole, shape) if shape is not None else merge_patch(obj, whole)
    except ApiError as error:
        raise KubectlError(f"error: {error.message}") from error
    fresh = copy.deepcopy(after)
    obj.clear()
    obj.update(fresh)


def _rename(rules: Obj, found: list[Obj]) -> None:
    before, after = rules.get("namePrefix") or "", rules.get("nameSuffix") or ""
    for each in rules.get("replicas") or []:
        for obj in found:
            spec = obj.get("spec")
            if obj["metadata"]["name"] == each.get("name") and isinstance(spec, dict) and "template" in spec:
                spec["replicas"] = each.get("count")
    changed: dict[tuple[str, str], str] = {}
    for obj in found:
        name = str(obj["metadata"].get("name", ""))
        plain = obj["kind"] in ("Namespace", "CustomResourceDefinition", "APIService")
        changed[obj["kind"], name] = name if plain else f"{before}{name}{after}"
        obj["metadata"]["name"] = changed[obj["kind"], name]
        if rules.get("namespace") and obj["kind"] not in names.CLUSTER_WIDE:
            obj["metadata"]["namespace"] = rules["namespace"]
        elif rules.get("namespace") and obj["kind"] == "Namespace":
            obj["metadata"]["name"] = rules["namespace"]
    names.renamed(found, changed)
    names.subjects(found, changed, str(rules.get("namespace") or ""))
