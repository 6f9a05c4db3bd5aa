"""The commands of Terraform."""

from __future__ import annotations

import base64
import json
import posixpath
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kubesim.terraform import render, schema
from kubesim.terraform.apply import Applier
from kubesim.terraform.backend import Backend, InCluster, Local
from kubesim.terraform.config import Module, load
from kubesim.terraform.diagnostics import Failure, Problem, drawn, said, told
from kubesim.terraform.google import Google
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Kubernetes, refusal
from kubesim.terraform.plan import Options, Planner, Provider
from kubesim.terraform.settings import ACCOUNT, Arguments, UsageError, arguments, cluster, provider_values, variables
from kubesim.terraform.state import VERSION, Held, State, dump, new_lineage, parse, parsed_address
from kubesim.terraform.values import Sensitive, hcl, plain, text_of, type_of

LOCK, BACKEND, MODULES = ".terraform.lock.hcl", ".terraform/terraform.tfstate", ".terraform/modules/modules.json"
COMMON = (
    "no-color input= lock= lock-timeout= state= var= var-file= compact-warnings parallelism= ignore-remote-version"
)
PLANNING = f"{COMMON} target= replace= refresh= refresh-only destroy"
GREEN = "\x1b[0m\x1b[1m\x1b[32m"


class Failed(Exception):
    """A command that ends with a status, having said why."""

    def __init__(self, status: int = 1) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Run:
    """One command: its pod and what it has read so far."""

    host: Host
    asked: Arguments = field(default_factory=Arguments)
    backend: Backend | None = None
    files: dict[str, Any] = field(default_factory=dict)
    """The parsed files of a saved plan."""
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
            raise Failure(Problem(*told("no_configuration_files")))
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
                raise Failure(
                    Problem(
                        *told("module_not_installed"),
                        item.file,
                        item.span,
                    )
                )
        locked = self.host.read(LOCK) or ""
        for name in _providers(root):
            if f'"registry.terraform.io/hashicorp/{name}"' not in locked:
                raise Failure(Problem(*told("inconsistent_dependency_lock_file", name=name)))

    def storage(self, root: Module | None, *, initial: bool = False) -> Backend:
        """Return where the state is. Raises Failure."""
        kept = json.loads(self.host.read(BACKEND) or "null")
        item = root.backend if root is not None else None
        if root is not None and not initial:
            wanted = item.name if item is not None else "local"
            if wanted != (kept or {"backend": {"type": "local"}})["backend"]["type"] and (wanted != "local" or kept):
                raise Failure(
                    Problem(
                        *told(
                            "backend_initialization_required_please_run",
                            it="Initial configuration of the requested" if not kept else "Backend type changed from",
                            wanted=wanted,
                        )
                    )
                )
        if kept is None or kept["backend"]["type"] == "local":
            path = (kept or {"backend": {"config": {}}})["backend"]["config"].get("path") or "terraform.tfstate"
            return Local(_Files(self.host), self.asked.one("state", path))
        config = {name: value for name, value in kept["backend"]["config"].items() if value is not None}
        api, space = cluster(self.host, config)
        space = config.get("namespace") or self.host.environment.get("KUBE_NAMESPACE") or "default"
        return InCluster(api, space, config["secret_suffix"], "default", config.get("labels"))

    def provider(self, planner: Planner, held: Held) -> Provider:
        """Return the provider of an instance."""
        name = held.type.partition("_")[0]
        key = self._provider_key(planner, held, name)
        if key not in self.providers:
            given = (
                provider_values(planner.config, key, planner.top.scope(planner.config.providers[key]))
                if key in planner.config.providers
                else {}
            )
            if name == "google":
                self.providers[key] = Google(
                    given,
                    self.host.environment,
                    self.host.read(f"{ACCOUNT}/token") or "",
                    self.host.http,
                    self.host.wait,
                )
            else:
                self.providers[key] = Kubernetes(cluster(self.host, given)[0])
        alias = key.partition(".")[2]
        held.provider = f'provider["registry.terraform.io/hashicorp/{name}"]{f".{alias}" if alias else ""}'
        return self.providers[key]

    def _provider_key(self, planner: Planner, held: Held, name: str) -> str:
        """Return which of the root's configurations of a provider an instance uses."""
        item = planner.find(held)
        node = item.node("provider") if item is not None else None
        key = name if node is None else f"{node[2][2]}.{node[3]}" if node[0] == "attr" else name
        module, way = planner.config, []
        for name, _ in planner.steps(held):
            if name not in module.children:
                break
            way.append(module.calls[name])
            module = module.children[name]
        for call in reversed(way):
            passed = call.node("providers")
            for inner, outer in passed[2] if passed is not None else ():
                label = (
                    inner[2]
                    if inner[0] == "lit"
                    else f"{inner[2][2]}.{inner[3]}"
                    if inner[0] == "attr"
                    else inner[2][2]
                )
                if label == key:
                    key = f"{outer[2][2]}.{outer[3]}" if outer[0] == "attr" else outer[2]
        return key

    def planner(self, root: Module, state: State, options: Options, *, quiet: bool = False) -> Planner:
        """Return a planner of a configuration beside a state."""
        say = (lambda text: None) if quiet else self.host.say
        return Planner(root, state, self.provider, self.host.text, say, self.host.folder, "default", options)

    def options(self) -> Options:
        """Return what the command line asks of a plan."""
        asked = self.asked
        return Options(
            asked.flags.get("target", []),
            asked.flags.get("replace", []),
            asked.on("refresh", True),
            asked.on("refresh-only"),
            asked.on("destroy"),
        )

    def who(self) -> str:
        """Return who holds a lock."""
        environment = self.host.environment
        return said(
            "itit2",
            it=environment.get("USER") or environment.get("LOGNAME") or "toolbox",
            it2=environment.get("HOSTNAME", "toolbox"),
        )


class _Files:
    """The pod's files, for a local state."""

    def __init__(self, host: Host) -> None:
        self.read, self.write = host.read, host.put


def _providers(root: Module) -> list[str]:
    found = {
        name
        for module in root.everything()
        for name in [*module.required, *(key[1].partition("_")[0] for key in module.resources)]
    }
    return sorted(name for name in found if schema.provider_schema(name) is not None)


# ---- plan and apply


def _planned(run: Run, operation: str) -> tuple[Planner, Module]:
    """Plan, with the state locked; the caller unlocks. Raises Failure."""
    root = run.configuration()
    run.initialized(root)
    given, warnings = variables(run.host, root, run.asked)
    run.backend = run.storage(root)
    if run.asked.on("lock", True):
        run.backend.lock(operation, run.who())
    planner = run.planner(root, run.backend.load(), run.options())
    planner.top.given = given
    planner.plan()
    if run.options().targets:
        warnings.append(Problem("Resource targeting is in effect", said("targeted"), severity="Warning"))
    planner.warnings = warnings
    return planner, root


def _unlocked(run: Run, work: Callable[[], int]) -> int:
    """Do something and give the lock up in any case."""
    try:
        return work()
    finally:
        if run.backend is not None:
            run.backend.unlock()


def plan(run: Run) -> int:
    """Show what an apply would do."""

    def work() -> int:
        planner, root = _planned(run, "OperationTypePlan")
        run.host.write(render.plan_text(planner))
        run.tell(planner.warnings)
        changed = any(
            each.action != "no-op" or each.moved or each.importing for each in planner.changes.values()
        ) or bool(render.output_changes(planner))
        out = run.asked.one("out")
        if out:
            _save_plan(run, out, planner, root)
            if changed or planner.options.refresh_only:
                run.host.write(said("linesaved_the_plan_to_outto", LINE=render.LINE, out=out))
        elif changed or (planner.options.refresh_only and planner.drift):
            run.host.write(f"{render.LINE}{said('not_saved')}")
        return 2 if changed and run.asked.on("detailed-exitcode") else 0

    return _unlocked(run, work)


def _save_plan(run: Run, path: str, planner: Planner, root: Module) -> None:
    files = {name: run.host.source(name) for module in root.everything() for name in module.files}
    held = {
        "files": files, "variables": {name: [plain(value), at] for name, (value, at) in planner.top.given.items()},
        "state": dump(planner.state), "prior": dump(planner.prior), "options": vars(planner.options),
    }  # fmt: skip
    run.host.put(path, "tfplan\n" + base64.b64encode(zlib.compress(json.dumps(held).encode())).decode())


class _Snapshot:
    """The files of a saved plan."""

    def __init__(self, run: Run, files: dict[str, str]) -> None:
        self.run, self.files = run, files

    def names(self, path: str) -> list[str] | None:
        found = [
            posixpath.basename(name)
            for name in self.files
            if (posixpath.dirname(name) or ".") == posixpath.normpath(path)
        ]
        return found or None

    def body(self, path: str) -> Any:
        from kubesim.terraform.syntax import parse as parse_file

        return parse_file(self.files[path], path)


def _saved(run: Run, path: str) -> Planner:
    """Return the plan of a file, planned again from what it was made of. Raises Failure."""
    text = run.host.read(path)
    if text is None or not text.startswith("tfplan\n"):
        why = (
            f'The specified plan file "{path}" could not be read.'
            if text is None
            else "The given file is no plan of this Terraform."
        )
        raise Failure(
            Problem(
                f'Failed to load "{path}" as a plan file',
                f"Error: stat {path}: no such file or directory" if text is None else why,
            )
        )
    unpacker = zlib.decompressobj()
    held = json.loads(unpacker.decompress(base64.b64decode(text[7:]), 16 << 20))
    root = load(_Snapshot(run, held["files"]))
    options = Options(**{**held["options"], "refresh": False})
    planner = run.planner(root, parse(held["state"]), options, quiet=True)
    planner.top.given = {name: (value, source) for name, (value, source) in held["variables"].items()}
    planner.plan()
    planner.prior = parse(held["prior"])
    return planner


def apply(run: Run) -> int:
    """Do what a plan says."""

    def work() -> int:
        if run.asked.rest:
            planner = _saved(run, run.asked.rest[0])
            run.backend = run.storage(planner.config)
            run.backend.lock("OperationTypeApply", run.who())
            now = run.backend.load()
            if (now.serial, now.lineage) != (planner.prior.serial, planner.prior.lineage):
                raise Failure(Problem(*told("saved_plan_is_stale")))
        else:
            planner, _ = _planned(run, "OperationTypeApply")
            if not _approved(run, planner):
                return 1
        planner.say = run.host.say
        return _applied(run, planner)

    return _unlocked(run, work)


def _approved(run: Run, planner: Planner) -> bool:
    """Show a plan and ask; True where it is to be done."""
    text = render.plan_text(planner)
    run.host.write(text)
    run.tell(planner.warnings)
    nothing = "No changes." in text
    if run.asked.on("auto-approve") or (nothing and not (planner.options.refresh_only and planner.drift)):
        return True
    kind = "destroy" if planner.options.destroy else "refresh" if planner.options.refresh_only else "apply"
    answer = run.host.question(f"\n\x1b[0m\x1b[1m{said(f'prompt_{kind}')}\n  \x1b[1mEnter a value:\x1b[0m ")
    if answer is None:
        raise Failure(Problem("error asking for approval: EOF"))
    run.host.write("\x1b[0m\x1b[0m\n")
    if answer != "yes":
        run.host.write(f"\x1b[0m\n{'Destroy' if kind == 'destroy' else 'Apply'} cancelled.\n")
        return False
    return True


def _applied(run: Run, planner: Planner) -> int:
    assert run.backend is not None
    applier = Applier(planner, run.host.say, lambda: None)
    try:
        if planner.options.refresh_only:
            planner.outputs = planner.outputs or {}
        else:
            applier.run()
    finally:
        _keep(run, planner, applier)
    if applier.problems:
        run.tell(applier.problems)
        return 1
    counts = applier.counts
    if planner.options.destroy:
        told = f"Destroy complete! Resources: {counts['destroyed']} destroyed."
    else:
        begin = f"{counts['imported']} imported, " if counts["imported"] else ""
        told = said(
            "apply_complete_resources_beginit_added",
            begin=begin,
            it=counts["added"],
            it2=counts["changed"],
            it3=counts["destroyed"],
        )
    run.host.write(f"{GREEN}\n{told}\n\x1b[0m")
    outputs = planner.state.output_values()
    if outputs and not planner.options.destroy:
        run.host.write(f"{GREEN}\nOutputs:\n\n\x1b[0m{render.outputs_list(outputs)}")
    return 0


def _keep(run: Run, planner: Planner, applier: Applier) -> None:
    """Write the state, if it is another than before."""
    assert run.backend is not None
    if planner.options.destroy:
        if not planner.state.instances or all(held.mode == "data" for held in planner.state.instances.values()):
            planner.state.instances.clear()
            planner.state.outputs = {}
    elif not planner.options.targets and not applier.problems:
        try:
            planner.state.set_outputs({name: planner.top.output(name) for name in planner.config.outputs})
        except Failure as failure:
            applier.problems += failure.problems
    if not planner.state.same_as(planner.prior):
        planner.state.serial, planner.state.lineage = planner.prior.serial + 1, planner.prior.lineage or new_lineage()
        run.backend.save(planner.state)


def destroy(run: Run) -> int:
    """Destroy everything."""
    run.asked.flags["destroy"] = ["true"]
    return apply(run)


# ---- the rest


def init(run: Run) -> int:
    """Get a folder ready."""
    host, asked = run.host, run.asked
    if not any(name.endswith(".tf") for name in host.names(".") or ()):
        host.write(said("terraform_initialized_in_an_empty"))
        return 0
    root = load(host)
    host.write("\x1b[0m\x1b[1mInitializing the backend...\x1b[0m\n")
    _init_backend(
        run,
        root,
        {name: value for text in asked.flags.get("backend-config", []) for name, _, value in [text.partition("=")]},
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
    host.write(said("initialized"))
    return 0


def _init_backend(run: Run, root: Module, more: dict[str, str]) -> None:
    item, kept = root.backend, json.loads(run.host.read(BACKEND) or "null")
    if item is None:
        return
    if item.name not in ("kubernetes", "local"):
        raise Failure(
            Problem(
                *told("unsupported_backend_type", name=item.name),
                item.file,
                item.span,
            )
        )
    config = {name: _literal(node) for name, (_, node) in item.body["attrs"].items()} | more
    if item.name == "kubernetes" and not config.get("secret_suffix"):
        raise Failure(
            Problem(
                *told("missing_required_argument"),
                item.file,
                item.span,
                "terraform",
            )
        )
    changed = kept is not None and (kept["backend"]["type"], kept["backend"]["config"]) != (item.name, config)
    if changed and not (
        run.asked.on("reconfigure")
        or run.asked.on("migrate-state")
        or more == {}
        and kept["backend"]["type"] == item.name
        and {**kept["backend"]["config"], **config} == kept["backend"]["config"]
    ):
        raise Failure(Problem(*told("backend_configuration_changed")))
    if not changed and kept is not None:
        config = kept["backend"]["config"] | more
    if kept is not None and changed and not run.asked.on("reconfigure") and not run.asked.on("migrate-state"):
        config = kept["backend"]["config"]
    old = run.storage(None) if kept is None or run.asked.on("migrate-state") else None
    text = json.dumps(
        {
            "version": 3,
            "terraform_version": VERSION,
            "backend": {
                "type": item.name,
                "config": config,
                "hash": zlib.crc32(json.dumps(config, sort_keys=True).encode()),
            },
        },
        indent=2,
    )
    if item.name == "kubernetes":
        api, space = cluster(run.host, config)
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
        raise Failure(Problem(*told("variables_not_allowed")))
    return node[2]


def _init_providers(run: Run, root: Module) -> None:
    from kubesim.terraform.config import allows

    host, names = run.host, _providers(root)
    host.write("\x1b[0m\x1b[1mInitializing provider plugins...\x1b[0m\n")
    locked = host.read(LOCK)
    wanted: dict[str, list[str]] = {}
    for module in root.everything():
        for name, (_, constraint) in module.required.items():
            wanted.setdefault(name, []).extend(
                part for part in [constraint] if part and part not in wanted.get(name, [])
            )
    for name in names:
        version, known = (
            schema.provider_version(name),
            locked is not None and f'/hashicorp/{name}"' in locked and not run.asked.on("upgrade"),
        )
        constraint = ", ".join(wanted.get(name, []))
        if not allows(constraint, version):
            raise Failure(
                Problem(
                    *told("failed_to_query_available_provider", name=name, constraint=constraint),
                )
            )
        if known:
            host.say(f"- Reusing previous version of hashicorp/{name} from the dependency lock file")
        else:
            host.say(
                f'- Finding hashicorp/{name} versions matching "{constraint}"...'
                if constraint
                else f"- Finding latest version of hashicorp/{name}..."
            )
    for name in names:
        version = schema.provider_version(name)
        if locked is not None and f'/hashicorp/{name}"' in locked:
            host.say(f"- Using previously-installed hashicorp/{name} v{version}")
        else:
            host.say(said("installing_hashicorpname_vversion_installed_hashicorpname", name=name, version=version))
    text = said("lock_file") + "".join(_locked(name, ", ".join(wanted.get(name, []))) for name in names)
    if names and text != locked:
        host.put(LOCK, text)
        host.write(said("new_lock"))


def _locked(name: str, constraint: str) -> str:
    more = f'  constraints = "{constraint}"\n' if constraint else ""
    return said(
        "provider_registryterraformiohashicorpname_version_itmore_hashes",
        name=name,
        it=schema.provider_version(name),
        more=more,
    )


def validate(run: Run) -> int:
    """Look for mistakes in the code alone."""
    root = load(run.host)
    run.initialized(root)
    planner = run.planner(root, State(), Options(refresh=False), quiet=True)
    planner.world.validating = True
    planner.top.given = {}
    planner.validate()
    run.host.write("\x1b[32m\x1b[1mSuccess!\x1b[0m The configuration is valid.\n\x1b[0m\n")
    return 0


def show(run: Run) -> int:
    """Show the state, or a saved plan."""
    if run.asked.rest:
        text = run.host.read(run.asked.rest[0])
        if text is not None and not text.startswith("tfplan\n"):
            run.host.write(render.state_text(parse(text)))
        else:
            planner = _saved(run, run.asked.rest[0])
            run.host.write(render.plan_text(planner))
        return 0
    state = run.storage(load(run.host) if run.host.names(".") else None).load()
    if not state.lineage:
        run.host.write("No state.\n")
        return 0
    run.host.write(render.state_text(state))
    return 0


def output(run: Run) -> int:
    """Print outputs."""
    outputs = run.storage(load(run.host)).load().output_values()
    if not run.asked.rest:
        if run.asked.on("json"):
            found = {
                name: {"sensitive": isinstance(value, Sensitive), "type": type_of(value), "value": plain(value)}
                for name, value in outputs.items()
            }
            run.host.write(json.dumps(found, indent=2) + "\n")
            return 0
        if not outputs:
            run.tell([Problem(*told("no_outputs_found"), severity="Warning")])
        run.host.write(render.outputs_list(outputs))
        return 0
    name = run.asked.rest[0]
    if name not in outputs:
        raise Failure(Problem(*told("output_name_not_found", name=name)))
    value = outputs[name].value if isinstance(outputs[name], Sensitive) else outputs[name]
    if run.asked.on("json"):
        run.host.write(json.dumps(plain(value), separators=(",", ":")) + "\n")
    elif run.asked.on("raw"):
        if isinstance(value, list | dict) or value is None:
            raise Failure(
                Problem(
                    *told(
                        "unsupported_value_for_raw_output",
                        name=name,
                        it="null" if value is None else "object" if isinstance(value, dict) else "tuple",
                    ),
                )
            )
        run.host.write(
            value
            if isinstance(value, str)
            else "true"
            if value is True
            else "false"
            if value is False
            else text_of(value)
        )
    else:
        run.host.write(hcl(value) + "\n")
    return 0


def state(run: Run) -> int:
    """List, show or forget instances of the state."""
    word, rest = (run.asked.rest or [""])[0], run.asked.rest[1:]
    if word not in ("list", "show", "rm"):
        raise Failure(
            Problem(
                f'The command "state {word}" is not supported on practice clusters'
                if word
                else "Subcommand needed: list, show or rm"
            )
        )
    run.backend = run.storage(load(run.host))
    held = run.backend.load()
    if not held.lineage:
        raise Failure(
            Problem(
                *told("no_state_file_was_found"),
            )
        )
    chosen = [each for each in held.sorted() if not rest or any(_named(each.address, target) for target in rest)]
    if word == "list":
        if rest and not chosen:
            raise Failure(
                Problem(
                    *told(
                        "invalid_target_address_2" if rest[0].startswith("module") else "invalid_target_address_3",
                        it=rest[0],
                    ),
                )
            )
        run.host.write("".join(f"{each.address}\n" for each in chosen))
        return 0
    if word == "show":
        found = held.instances.get(rest[0]) if rest else None
        if found is None:
            raise Failure(
                Problem(
                    *told("no_instance_found_for_the"),
                )
            )
        run.host.write(f"# {found.address}:\n{render.instance_text(found)}\n")
        return 0
    return _unlocked(run, lambda: _forget(run, held, rest))


def _named(address: str, target: str) -> bool:
    return address == target or address.startswith((f"{target}.", f"{target}["))


def _forget(run: Run, held: State, targets: list[str]) -> int:
    assert run.backend is not None
    run.backend.lock("state-rm", run.who())
    chosen = [each for each in held.sorted() if any(_named(each.address, target) for target in targets)]
    if not chosen:
        raise Failure(
            Problem(
                *told("invalid_target_address"),
            )
        )
    for each in chosen:
        run.host.say(f"{'Would remove' if run.asked.on('dry-run') else 'Removed'} {each.address}")
        del held.instances[each.address]
    if not run.asked.on("dry-run"):
        held.serial += 1
        run.backend.save(held)
        run.host.say(f"Successfully removed {len(chosen)} resource instance(s).")
    return 0


def import_(run: Run) -> int:
    """Take an object that there is into the state."""
    if len(run.asked.rest) != 2:
        raise Failure(Problem("The import command expects two arguments."))
    address, name = run.asked.rest
    root = run.configuration()
    run.initialized(root)
    found = parsed_address(address)
    if found is None:
        raise Failure(Problem(*told("invalid_address", address=address)))
    given, _ = variables(run.host, root, run.asked)
    held = Held(*found, {})
    kind = schema.resource_type(held.mode, held.type)
    run.backend = run.storage(root)

    def work() -> int:
        assert run.backend is not None
        run.backend.lock("OperationTypeInvalid", run.who())
        state = run.backend.load()
        planner = run.planner(root, state, Options())
        planner.top.given = given
        if kind is None or planner.find(held) is None:
            why = said(
                "resource_address_address_does_not",
                address=address,
                it="the root module" if not held.module else held.module,
                type=held.type,
                name=held.name,
            )
            raise Failure(Problem(why))
        if address in state.instances:
            raise Failure(
                Problem(
                    *told("resource_already_managed_by_terraform", address=address),
                )
            )
        run.host.say(f'\x1b[0m\x1b[1m{address}: Importing from ID "{name}"...\x1b[0m')
        run.host.say(said("address_import_prepared_prepared_type", address=address, type=held.type))
        planner.import_one(held, kind, name)
        planner.state.serial, planner.state.lineage = state.serial + 1, state.lineage or new_lineage()
        run.backend.save(planner.state)
        run.host.write(said("import_successfulthe_resources_that_were"))
        return 0

    return _unlocked(run, work)


def fmt(run: Run) -> int:
    """Rewrite files in the usual form."""
    from kubesim.terraform.fmt import format_files

    return format_files(run.host, run.asked)


def version(run: Run) -> int:
    """Tell which Terraform this is."""
    if run.asked.on("json"):
        run.host.write(
            json.dumps(
                {
                    "terraform_version": VERSION,
                    "platform": "linux_amd64",
                    "provider_selections": {},
                    "terraform_outdated": False,
                },
                indent=2,
            )
            + "\n"
        )
        return 0
    locked = run.host.read(LOCK) or ""
    used = [name for name in ("google", "kubernetes") if f'/hashicorp/{name}"' in locked]
    run.host.write(
        f"Terraform v{run.host.environment.get('TERRAFORM_VERSION') or VERSION}\non linux_amd64\n"
        + "".join(
            f"+ provider registry.terraform.io/hashicorp/{name} v{schema.provider_version(name)}\n" for name in used
        )
    )
    return 0


COMMANDS: dict[str, tuple[Callable[[Run], int], str]] = {
    "init": (init, said("common_backendconfig_backend_upgrade_reconfigure", COMMON=COMMON)),
    "fmt": (fmt, "list= write= diff check recursive no-color"), "validate": (validate, "no-color"),
    "plan": (plan, f"{PLANNING} out= detailed-exitcode"), "apply": (apply, f"{PLANNING} auto-approve backup="),
    "destroy": (destroy, f"{PLANNING} auto-approve backup="), "show": (show, "no-color"),
    "output": (output, "raw json no-color state="),
    "state": (state, f"{COMMON} dry-run"), "import": (import_, f"{COMMON} config="),
    "version": (version, "json no-color"),
}  # fmt: skip
REFUSED = said("console_forceunlock_get_graph_login")


def run(host: Host, argv: list[str]) -> int:
    """Run a command line and return its status."""
    words = [*argv]
    while words and words[0].startswith("-chdir="):
        host.folder = host.path(words.pop(0)[7:])
    words += [*filter(None, host.environment.get("TF_CLI_ARGS", "").split())] if words else []
    if words and words[0] in ("-v", "-version", "--version"):
        words[0] = "version"
    if not words or words[0] in ("-h", "-help", "--help"):
        host.write(said("help"))
        return 0 if words else 127
    name = words.pop(0)
    if name not in COMMANDS:
        if name in REFUSED.split():
            host.complain(f'The command "terraform {name}" is not supported on practice clusters.\n')
        else:
            host.complain(said("terraform_has_no_command_named", name=name))
        return 1
    work, known = COMMANDS[name]
    current = Run(host)
    try:
        current.asked = arguments(words, known)
        host.color = not current.asked.on("no-color")
        return work(current)
    except UsageError as error:
        current.tell([Problem("Failed to parse command-line flags", str(error))])
    except Failure as failure:
        current.tell(failure.problems)
    return 1
