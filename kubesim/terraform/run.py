"""One command: its pod, and what it finds there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kubesim.terraform import schema
from kubesim.terraform.backend import Backend, InCluster, Local
from kubesim.terraform.changes import Options, Provider
from kubesim.terraform.config import Module, load
from kubesim.terraform.diagnostics import Problem, drawn, failure
from kubesim.terraform.google import Google
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Kubernetes
from kubesim.terraform.plan import Planner
from kubesim.terraform.settings import ACCOUNT, Arguments, cluster, provider_values
from kubesim.terraform.state import Held, State

LOCK, BACKEND, MODULES = ".terraform.lock.hcl", ".terraform/terraform.tfstate", ".terraform/modules/modules.json"


@dataclass
class Run:
    """One command: its pod and what it has read so far."""

    host: Host
    asked: Arguments = field(default_factory=Arguments)
    backend: Backend | None = None
    providers: dict[str, Provider] = field(default_factory=dict)

    def tell(self, problems: list[Problem]) -> None:
        """Show problems: errors on standard error, warnings with the output."""
        for severity, out in (("Warning", self.host.write), ("Error", self.host.complain)):
            chosen = [each for each in problems if each.severity == severity]
            if chosen:
                out(drawn(chosen, self.host.source, color=self.host.color, width=self.host.width))

    # ---- what a folder holds

    def configuration(self) -> Module:
        """Return the configuration of the folder. Raises Failure."""
        if not any(name.endswith(".tf") for name in self.host.names(".") or ()):
            raise failure("no_configuration_files")
        return load(self.host)

    def initialized(self, root: Module) -> None:
        """Raise Failure unless ``init`` has been run for this configuration."""
        known = json.loads(self.host.read(MODULES) or '{"Modules": []}')["Modules"]
        for module in root.everything()[1:]:
            key = ".".join(module.path)
            if not any(each["Key"] == key and each["Source"] == module.source for each in known):
                parent = root
                for name in module.path[:-1]:
                    parent = parent.children[name]
                item = parent.calls[module.path[-1]]
                raise failure("module_not_installed", item.file, item.span)
        locked = self.host.read(LOCK) or ""
        for name in providers_of(root):
            if f'"registry.terraform.io/hashicorp/{name}"' not in locked:
                raise failure("inconsistent_dependency_lock_file", name=name)

    def storage(self, root: Module | None) -> Backend:
        """Return where the state is. Raises Failure."""
        kept = json.loads(self.host.read(BACKEND) or "null")
        item = root.backend if root is not None else None
        if root is not None:
            wanted = item.name if item is not None else "local"
            if wanted != (kept or {"backend": {"type": "local"}})["backend"]["type"] and (wanted != "local" or kept):
                it = "Initial configuration of the requested" if not kept else "Backend type changed from"
                raise failure("backend_initialization_required_please_run", it=it, wanted=wanted)
        if kept is None or kept["backend"]["type"] == "local":
            path = (kept or {"backend": {"config": {}}})["backend"]["config"].get("path") or "terraform.tfstate"
            return Local(self.host, self.asked.one("state", path))
        config = {name: value for name, value in kept["backend"]["config"].items() if value is not None}
        space = config.get("namespace") or self.host.environment.get("KUBE_NAMESPACE") or "default"
        return InCluster(cluster(self.host, config), space, config["secret_suffix"], config.get("labels"))

    def provider(self, planner: Planner, held: Held) -> Provider:
        """Return the provider of an instance."""
        key = held.type.partition("_")[0]
        if key not in self.providers:
            item = planner.config.providers.get(key)
            given = provider_values(item, key, planner.top.scope(item)) if item is not None else {}
            if key == "google":
                self.providers[key] = Google(given, self.host, self.host.read(f"{ACCOUNT}/token") or "")
            else:
                self.providers[key] = Kubernetes(cluster(self.host, given))
        held.provider = f'provider["registry.terraform.io/hashicorp/{key}"]'
        return self.providers[key]

    def planner(self, root: Module, state: State, options: Options, *, quiet: bool = False) -> Planner:
        """Return a planner of a configuration beside a state."""
        say = (lambda text: None) if quiet else self.host.say
        return Planner(root, state, self.provider, self.host.text, say, self.host.folder, options)

    def options(self) -> Options:
        """Return what the command line asks of a plan."""
        flags, on = self.asked.flags, self.asked.on
        switches = on("refresh", True), on("refresh-only"), on("destroy")
        return Options(flags.get("target", []), flags.get("replace", []), *switches)

    def who(self) -> str:
        """Return who holds a lock."""
        environment = self.host.environment
        user = environment.get("USER") or environment.get("LOGNAME") or "toolbox"
        return f"{user}@{environment.get('HOSTNAME', 'toolbox')}"


def providers_of(root: Module) -> list[str]:
    """Return the names of the providers that a configuration needs."""
    found: set[str] = set()
    for module in root.everything():
        found |= {*module.required, *(kind.partition("_")[0] for _, kind, _ in module.resources)}
    return sorted(name for name in found if schema.provider_schema(name) is not None)
