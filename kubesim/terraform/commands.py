"""The commands of Terraform."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kubesim.terraform import render, schema
from kubesim.terraform.changes import Options, within
from kubesim.terraform.config import load
from kubesim.terraform.diagnostics import Failure, Problem, failure, said, told
from kubesim.terraform.fmt import format_files
from kubesim.terraform.host import Host
from kubesim.terraform.initial import init
from kubesim.terraform.operations import apply, check_code, destroy, plan, saved, unlocked
from kubesim.terraform.run import LOCK, Run
from kubesim.terraform.settings import UsageError, arguments, variables
from kubesim.terraform.state import VERSION, Held, State, new_lineage, parsed_address
from kubesim.terraform.values import convert, hcl, plain, type_of

COMMON = (
    "no-color input= lock= lock-timeout= state= var= var-file= compact-warnings parallelism= ignore-remote-version"
)
PLANNING = f"{COMMON} target= replace= refresh= refresh-only destroy"


def validate(run: Run) -> int:
    """Look for mistakes in the code alone."""
    root = load(run.host)
    run.initialized(root)
    check_code(run, root)
    run.host.write("\x1b[32m\x1b[1mSuccess!\x1b[0m The configuration is valid.\n\x1b[0m\n")
    return 0


def show(run: Run) -> int:
    """Show the state, or a saved plan."""
    if run.asked.rest:
        run.host.write(render.plan_text(saved(run, run.asked.rest[0])))
        return 0
    state = run.storage(load(run.host) if run.host.names(".") else None).load()
    run.host.write(render.state_text(state) if state.lineage else "No state.\n")
    return 0


def output(run: Run) -> int:
    """Print outputs."""
    held = run.storage(load(run.host)).load()
    outputs = held.output_values()
    if run.asked.rest:
        return _one_output(run, run.asked.rest[0], outputs)
    if run.asked.on("json"):
        found = {
            name: {"sensitive": "sensitive" in held.outputs[name], "type": type_of(value), "value": plain(value)}
            for name, value in outputs.items()
        }
        run.host.write(json.dumps(found, indent=2) + "\n")
        return 0
    if not outputs:
        run.tell([Problem(*told("no_outputs_found"), severity="Warning")])
    run.host.write(render.outputs_list(held))
    return 0


def _one_output(run: Run, name: str, outputs: dict[str, Any]) -> int:
    if name not in outputs:
        raise failure("output_name_not_found", name=name)
    value = outputs[name]
    if run.asked.on("json"):
        run.host.write(json.dumps(plain(value), separators=(",", ":")) + "\n")
    elif not run.asked.on("raw"):
        run.host.write(hcl(value) + "\n")
    elif isinstance(value, list | dict) or value is None:
        it = "null" if value is None else "object" if isinstance(value, dict) else "tuple"
        raise failure("unsupported_value_for_raw_output", name=name, it=it)
    else:
        run.host.write(convert(value, "string"))
    return 0


def state(run: Run) -> int:
    """List, show or forget instances of the state."""
    word, rest = (run.asked.rest or [""])[0], run.asked.rest[1:]
    if word not in ("list", "show", "rm"):
        raise failure("unsupported_subcommand" if word else "subcommand_needed", word=word)
    run.backend = run.storage(load(run.host))
    held = run.backend.load()
    if not held.lineage:
        raise failure("no_state_file_was_found")
    chosen = [each for each in held.sorted() if not rest or any(within(each.address, target) for target in rest)]
    if word == "list":
        if rest and not chosen:
            key = "invalid_target_address_2" if rest[0].startswith("module") else "invalid_target_address_3"
            raise failure(key, it=rest[0])
        run.host.write("".join(f"{each.address}\n" for each in chosen))
        return 0
    if word == "show":
        found = held.instances.get(rest[0]) if rest else None
        if found is None:
            run.host.complain(said("no_instance_found"))
            return 1
        run.host.write(f"# {found.address}:\n{render.instance_text(found)}\n")
        return 0
    return unlocked(run, lambda: _forget(run, held, rest))


def _forget(run: Run, held: State, targets: list[str]) -> int:
    assert run.backend is not None
    run.backend.lock("state-rm", run.who())
    chosen = [each for each in held.sorted() if any(within(each.address, target) for target in targets)]
    if not chosen:
        raise failure("invalid_target_address")
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
        raise failure("invalid_address", address=address)
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
            key, it = "resource_address_address_does_not", held.module or "the root module"
            why = said(key, address=address, it=it, type=held.type, name=held.name)
            run.host.complain(f"Error: {why}\n\n")
            return 1
        run.host.say(f'\x1b[0m\x1b[1m{address}: Importing from ID "{name}"...\x1b[0m')
        run.host.say(said("address_import_prepared_prepared_type", address=address, type=held.type))
        planner.read_data()
        if address in state.instances:
            raise failure("resource_already_managed_by_terraform", address=address)
        planner.import_one(held, kind, name)
        planner.state.serial, planner.state.lineage = state.serial + 1, state.lineage or new_lineage()
        run.backend.save(planner.state)
        run.host.write(said("import_successfulthe_resources_that_were"))
        return 0

    return unlocked(run, work)


def fmt(run: Run) -> int:
    """Rewrite files in the usual form."""
    return format_files(run.host, run.asked)


def version(run: Run) -> int:
    """Tell which Terraform this is."""
    locked = run.host.read(LOCK) or ""
    run.host.say(f"Terraform v{run.host.environment.get('TERRAFORM_VERSION') or VERSION}\non linux_amd64")
    for name in ("google", "kubernetes"):
        if f'/hashicorp/{name}"' in locked:
            run.host.say(f"+ provider registry.terraform.io/hashicorp/{name} v{schema.provider_version(name)}")
    return 0


COMMANDS: dict[str, tuple[Callable[[Run], int], str]] = {
    "init": (init, said("common_backendconfig_backend_upgrade_reconfigure", COMMON=COMMON)),
    "fmt": (fmt, "list= write= diff check recursive no-color"), "validate": (validate, "no-color"),
    "plan": (plan, f"{PLANNING} out= detailed-exitcode"), "apply": (apply, f"{PLANNING} auto-approve backup="),
    "destroy": (destroy, f"{PLANNING} auto-approve backup="), "show": (show, "no-color"),
    "output": (output, "raw json no-color state="),
    "state": (state, f"{COMMON} dry-run"), "import": (import_, f"{COMMON} config="),
    "version": (version, "no-color"),
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
    except Failure as failed:
        current.tell(failed.problems)
    return 1
