"""kubectl config: the contexts, clusters and users of files."""

from __future__ import annotations

from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.kubeconfig import PARTS, Kubeconfig, load, save
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.texts import to_json, to_yaml
from kubesim.shell.machine import Process

HEAD = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]


async def view(process: Process, opts: Flags) -> int:
    """Show the configuration."""
    config = load(process, opts)
    config.current = opts.get("context") or config.current
    whole = config.shown(raw=opts.on("raw") or opts.on("flatten"))
    if opts.on("minify"):
        whole = _minified(config, whole)
    form = opts.get("output") or "yaml"
    if form == "yaml":
        await process.write(to_yaml(whole))
    elif form == "json":
        await process.write(to_json(whole))
    else:
        await process.write(printing.formatted(form, whole))
    return 0


def _minified(config: Kubeconfig, whole: Obj) -> Obj:
    if not config.current:
        raise KubectlError("error: current-context must exist in order to minify")
    context = config.parts["contexts"].get(config.current)
    if context is None:
        raise KubectlError(f"error: cannot locate context {config.current}")
    kept = {"contexts": config.current, "clusters": context.get("cluster"), "users": context.get("user")}
    return {
        **whole,
        **{part: [each for each in whole[part] or [] if each["name"] == kept[part]] or None for part in PARTS},
    }


async def current_context(process: Process, opts: Flags) -> int:
    """Name the current context."""
    found = load(process, opts).current
    if not found:
        raise KubectlError("error: current-context is not set")
    await process.write(found + "\n")
    return 0


async def get_contexts(process: Process, opts: Flags) -> int:
    """List the contexts, or those that are named."""
    config = load(process, opts)
    known = config.parts["contexts"]
    wanted = sorted(opts.args or known)
    if opts.get("output") == "name":
        await process.write("".join(f"{name}\n" for name in wanted if name in known))
        return 0
    rows = [] if opts.on("no-headers") else [HEAD]
    for name in wanted:
        if name in known:
            inner = known[name]
            mark = "*" if name == config.current else ""
            rows.append([mark, name, *(str(inner.get(key) or "") for key in ("cluster", "user", "namespace"))])
    await process.write(table(rows))
    missing = [f"error: context {name} not found\n" for name in wanted if name not in known]
    await process.flush()
    await process.error("".join(missing))
    return int(bool(missing))


async def use_context(process: Process, opts: Flags) -> int:
    """Choose a context."""
    name = _one(opts)
    config = load(process, opts)
    if name not in config.parts["contexts"]:
        raise KubectlError(f'error: no context exists with the name: "{name}"')
    config.current = name
    save(process, config)
    await process.write(f'Switched to context "{name}".\n')
    return 0


def _one(opts: Flags) -> str:
    if len(opts.args) != 1:
        raise KubectlError(f"error: Unexpected args: [{' '.join(opts.args)}]")
    return opts.args[0]


async def set_context(process: Process, opts: Flags) -> int:
    """Make a context, or change one."""
    config = load(process, opts)
    if opts.on("current"):
        name = config.current
        if not name:
            raise KubectlError("error: no current context is set")
    else:
        if not opts.args:
            raise KubectlError("error: you must specify a non-empty context name or --current")
        name = _one(opts)
    known = name in config.parts["contexts"]
    inner = config.parts["contexts"].setdefault(name, {"cluster": "", "user": ""})
    inner |= {key: opts.get(key) for key in ("cluster", "user", "namespace") if key in opts}
    save(process, config)
    await process.write(f'Context "{name}" {"modified" if known else "created"}.\n')
    return 0
