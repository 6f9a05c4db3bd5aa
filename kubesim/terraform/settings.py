"""What a run is told from outside of the code: its command line, variables, and the credentials in the pod."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from typing import Any

import yaml

from kubesim.terraform.config import Item, Module
from kubesim.terraform.decode import decode
from kubesim.terraform.diagnostics import Problem, failure, said, told
from kubesim.terraform.evaluate import NoNames, Scope, evaluate
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Api
from kubesim.terraform.schema import provider_schema
from kubesim.terraform.syntax import parse_expression

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class UsageError(Exception):
    """A command line that is not understood."""


@dataclass
class Arguments:
    """A command line: flags with their values, and the rest."""

    flags: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def on(self, name: str, default: bool = False) -> bool:
        """Tell whether a flag is set."""
        return self.flags[name][-1] not in ("false", "0") if name in self.flags else default

    def one(self, name: str, default: str = "") -> str:
        """Return the value of a flag."""
        return self.flags[name][-1] if name in self.flags else default


def arguments(words: list[str], known: str) -> Arguments:
    """Return a command line; ``known`` names its flags, those with a value end in ``=``. Raises UsageError."""
    names = {name.rstrip("="): name.endswith("=") for name in known.split()}
    found, left = Arguments(), [*words]
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            found.rest.append(word)
            continue
        name, sign, value = word.lstrip("-").partition("=")
        if name not in names:
            raise UsageError(f"flag provided but not defined: -{name}")
        if names[name] and not sign:
            if not left:
                raise UsageError(f"flag needs an argument: -{name}")
            value = left.pop(0)
        found.flags.setdefault(name, []).append(value if sign or names[name] else "true")
    return found


def _bare(file: str) -> Scope:
    """Return the scope of values that are given from outside."""

    def no_file(path: str) -> str:
        raise ValueError("functions may not be called here")

    return Scope(NoNames("variables_not_allowed", no_file), file)


def variables(host: Host, root: Module, asked: Arguments) -> tuple[dict[str, tuple[Any, str]], list[Problem]]:
    """Return the values of the root module's variables, and warnings about others. Raises Failure."""
    found: dict[str, tuple[Any, str]] = {}
    warnings: list[Problem] = []
    for name, text in host.environment.items():
        if name.startswith("TF_VAR_") and (item := root.variables.get(name[7:])) is not None:
            found[name[7:]] = (_given(item, text, f"<value for var.{name[7:]}>"), "")
    names = sorted(host.names(".") or ())
    files: list[str] = [name for name in ("terraform.tfvars", "terraform.tfvars.json") if name in names]
    files += [name for name in names if name.endswith((".auto.tfvars", ".auto.tfvars.json"))]
    for path in [*files, *asked.flags.get("var-file", [])]:
        for name, value, line in _of_file(host, path):
            if name in root.variables:
                found[name] = (value, f"{path}:{line}")
            else:
                warnings.append(Problem(*told("value_for_undeclared", name=name, path=path), severity="Warning"))
    for text in asked.flags.get("var", []):
        name, sign, value = text.partition("=")
        if not sign:
            raise failure("invalid_var_option", text=text)
        if name not in root.variables:
            raise failure("assigned_undeclared", name=name)
        found[name] = (_given(root.variables[name], value, f"<value for var.{name}>"), "")
    for name, item in root.variables.items():
        if name not in found and "default" not in item.body["attrs"]:
            found[name] = (_asked(host, name, item, asked), "")
    return found, warnings


def _given(item: Item, text: str, file: str) -> Any:
    if item.type in ("string", "dynamic"):
        return text
    return evaluate(parse_expression(text, file), _bare(file)) if text else None


def _asked(host: Host, name: str, item: Item, asked: Arguments) -> Any:
    """Ask for a variable that has no value."""
    if asked.on("input", True):
        about = item.node("description")
        text = host.question(said("varnameit_enter_a_value", name=name, it=f"  {about[2]}\n" if about else ""))
        host.write("\n")
        if text is not None:
            return _given(item, text, f"<value for var.{name}>")
    raise failure("no_value_for_required_variable", item.file, item.span, name=name)


def _of_file(host: Host, path: str) -> list[tuple[str, Any, str]]:
    if path.endswith(".json"):
        try:
            found = json.loads(host.read(path) or "")
            return [(name, value, "1-1") for name, value in found.items()]
        except (ValueError, AttributeError) as error:
            raise failure("failed_to_read_variables_file_2", path=path) from error
    if host.read(path) is None:
        raise failure("failed_to_read_variables_file", path=path)
    body, scope = host.body(path), _bare(path)
    return [(name, evaluate(node, scope), f"{span[0]}-{node[1][2]}") for name, (span, node) in body["attrs"].items()]


# ---- credentials


def provider_values(item: Item, key: str, scope: Scope) -> dict[str, Any]:
    """Return what the configuration of a provider says."""
    known = provider_schema(key)
    if known is None:
        return {}
    for kind, _, span, _ in item.body["blocks"]:
        if kind == "exec":
            raise failure("unsupported_block_type_3", item.file, span, item.within)
    attributes = {each: found for each, found in item.body["attrs"].items() if each != "version"}
    found = decode(known, {**item.body, "attrs": attributes}, scope, item.span, top=False)
    return {each: value for each, value in found.items() if value is not None}


def cluster(host: Host, given: dict[str, Any]) -> Api:
    """Return the way to a cluster. Raises Failure."""
    environment = host.environment
    server = given.get("host") or environment.get("KUBE_HOST", "")
    token = given.get("token") or environment.get("KUBE_TOKEN", "")
    paths = [given.get("config_path"), environment.get("KUBE_CONFIG_PATH"), *(given.get("config_paths") or ())]
    if path := next(filter(None, [*paths, *environment.get("KUBE_CONFIG_PATHS", "").split(":")]), ""):
        config = _kubeconfig(host, path, given.get("config_context") or environment.get("KUBE_CTX", ""))
        server, token = server or config[0], token or config[1]
    elif not server and "KUBERNETES_SERVICE_HOST" in environment:
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        server = f"https://{environment['KUBERNETES_SERVICE_HOST']}:{port}"
        token = token or host.read(f"{ACCOUNT}/token") or ""
    headers = {"Authorization": f"Bearer {token.strip()}"} if token else {}
    return Api(host.http, host.wait, (server or "http://localhost").rstrip("/"), headers)


def _kubeconfig(host: Host, path: str, context: str) -> tuple[str, str]:
    """Return server and token of a kubeconfig's context."""
    text = host.read(path)
    if text is None:
        raise failure("provider_was_supplied_an_invalid", path=path)
    try:
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
        clusters, contexts, users = (
            {each["name"]: each[kind] or {} for each in config.get(f"{kind}s") or ()}
            for kind in ("cluster", "context", "user")
        )
        chosen = contexts[context or config["current-context"]]
        server, user = clusters[chosen["cluster"]], users.get(chosen.get("user"), {})
        token = user.get("token") or ""
        if not token and user.get("tokenFile"):
            token = host.read(posixpath.join(posixpath.dirname(host.path(path)), user["tokenFile"])) or ""
        return server["server"], token
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise failure("provider_was_supplied_an_invalid_2", path=path) from error
