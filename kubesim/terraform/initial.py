"""``terraform init``: backend, modules, providers and their lock file."""

from __future__ import annotations

import json
import zlib
from typing import Any

from kubesim.terraform import schema
from kubesim.terraform.backend import Backend
from kubesim.terraform.config import Module, allows, load
from kubesim.terraform.diagnostics import Failure, Problem, failure, said
from kubesim.terraform.kubernetes import refusal
from kubesim.terraform.run import BACKEND, LOCK, MODULES, Run, providers_of
from kubesim.terraform.settings import cluster
from kubesim.terraform.state import VERSION


def init(run: Run) -> int:
    """Get a folder ready."""
    host, asked = run.host, run.asked
    if not any(name.endswith(".tf") for name in host.names(".") or ()):
        host.write(said("terraform_initialized_in_an_empty"))
        return 0
    root = load(host)
    host.write("\x1b[0m\x1b[1mInitializing the backend...\x1b[0m\n")
    _init_backend(
        run, root, dict(text.split("=", 1) for text in asked.flags.get("backend-config", []) if "=" in text)
    )
    modules = root.everything()[1:]
    if modules:
        host.write(f"\x1b[0m\x1b[1m{'Upgrading' if asked.on('upgrade') else 'Initializing'} modules...\x1b[0m\n")
    rows = [{"Key": "", "Source": "", "Dir": "."}]
    known = host.read(MODULES) or ""
    for module in modules:
        key = ".".join(module.path)
        if f'"Key": "{key}"' not in known and f'"Key":"{key}"' not in known or asked.on("upgrade"):
            host.say(f"- {key} in {module.folder}")
        rows.append({"Key": key, "Source": module.source, "Dir": module.folder})
    if modules:
        host.put(MODULES, json.dumps({"Modules": rows}, separators=(",", ":")))
    _init_providers(run, root)
    host.write(said("initialized_quietly" if host.environment.get("TF_IN_AUTOMATION") else "initialized"))
    return 0


def _init_backend(run: Run, root: Module, more: dict[str, str]) -> None:
    item, kept = root.backend, json.loads(run.host.read(BACKEND) or "null")
    if item is None:
        return
    if item.name not in ("kubernetes", "local"):
        raise failure("unsupported_backend_type", item.file, item.span, name=item.name)
    config = {name: _literal(node) for name, (_, node) in item.body["attrs"].items()} | more
    if item.name == "kubernetes" and not config.get("secret_suffix"):
        raise failure("missing_required_argument", item.file, item.span, "terraform")
    if kept is not None and kept["backend"]["type"] == item.name and not more:
        config = {**kept["backend"]["config"], **config}
    changed = kept is not None and (kept["backend"]["type"], kept["backend"]["config"]) != (item.name, config)
    if changed and not (run.asked.on("reconfigure") or run.asked.on("migrate-state")):
        raise failure("backend_configuration_changed")
    old = run.storage(None) if kept is None or run.asked.on("migrate-state") else None
    digest = zlib.crc32(json.dumps(config, sort_keys=True).encode())
    backend = {"type": item.name, "config": config, "hash": digest}
    text = json.dumps({"version": 3, "terraform_version": VERSION, "backend": backend}, indent=2)
    if item.name == "kubernetes":
        api = cluster(run.host, config)
        space = config.get("namespace") or run.host.environment.get("KUBE_NAMESPACE") or "default"
        path = f"/api/v1/namespaces/{space}/secrets?labelSelector=tfstate%3Dtrue"
        answer = api("GET", path)
        if answer.status != 200:
            raise Failure(Problem(f"Failed to get existing workspaces: {refusal('GET', api.server, path, answer)}"))
    run.host.put(BACKEND, text)
    if old is not None:
        _migrate(run, old)
    if kept is None or changed:
        run.host.write(said("successfully_configured_the_backend_name", name=item.name))


def _migrate(run: Run, old: Backend) -> None:
    """Copy a state that was elsewhere into the new backend, if that is empty."""
    state, place = old.load(), run.storage(None)
    if state.instances and not place.load().instances:
        state.serial += 1
        place.save(state)


def _literal(node: Any) -> Any:
    if node[0] == "object":
        return {key[2]: _literal(value) for key, value in node[2]}
    if node[0] == "tuple":
        return [_literal(each) for each in node[2]]
    if node[0] != "lit":
        raise failure("variables_not_allowed")
    return node[2]


def _init_providers(run: Run, root: Module) -> None:
    host, names = run.host, providers_of(root)
    host.write("\x1b[0m\x1b[1mInitializing provider plugins...\x1b[0m\n")
    locked = host.read(LOCK)
    wanted: dict[str, list[str]] = {}
    for module in root.everything():
        for name, (_, constraint) in module.required.items():
            if constraint and constraint not in wanted.setdefault(name, []):
                wanted[name].append(constraint)
    for name in names:
        version = schema.provider_version(name)
        known = f'/hashicorp/{name}"' in (locked or "") and not run.asked.on("upgrade")
        constraint = ", ".join(wanted.get(name, []))
        if not allows(constraint, version):
            raise failure("failed_to_query_available_provider", name=name, constraint=constraint)
        if known:
            host.say(f"- Reusing previous version of hashicorp/{name} from the dependency lock file")
        elif constraint:
            host.say(f'- Finding hashicorp/{name} versions matching "{constraint}"...')
        else:
            host.say(f"- Finding latest version of hashicorp/{name}...")
    for name in names:
        version = schema.provider_version(name)
        if f'/hashicorp/{name}"' in (locked or ""):
            host.say(f"- Using previously-installed hashicorp/{name} v{version}")
        else:
            host.say(said("installing_hashicorpname_vversion_installed_hashicorpname", name=name, version=version))
    text = said("lock_file") + "".join(_locked(name, ", ".join(wanted.get(name, []))) for name in names)
    if names and text != locked:
        host.put(LOCK, text)
        host.write(said("new_lock"))


def _locked(name: str, constraint: str) -> str:
    more = f'  constraints = "{constraint}"\n' if constraint else ""
    return said("locked_provider", name=name, version=schema.provider_version(name), more=more)
