"""kubectl config: contexts, clusters and users in files."""

from __future__ import annotations

import base64
import posixpath

from kubesim.shell.files import Directory
from kubesim.shell.kubectl import about, printing
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import FALSE, TRUE, Flags
from kubesim.shell.kubectl.kubeconfig import PARTS, Kubeconfig, load, save
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.texts import to_json, to_yaml
from kubesim.shell.machine import Process

HEAD = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]
TITLES = {"clusters": "cluster", "contexts": "context", "users": "user"}
ORDER = ("server", "tls-server-name",
         "insecure-skip-tls-verify", "certificate-authority", "certificate-authority-data",
         "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile", "as",
         "username", "password", "cluster", "user", "namespace")  # fmt: skip
"""How fields follow one another in JSON."""


async def view(process: Process, opts: Flags) -> int:
    """Show the configuration."""
    if opts.args:
        given = " ".join(opts.args)
        raise KubectlError(
            f"error: unexpected arguments: [{given}]\nSee 'kubectl config view -h' for help and examples"
        )
    config = load(process, opts)
    config.current = opts.get("context") or config.current
    whole = config.shown(raw=opts.on("raw") or opts.on("flatten"))
    if opts.on("minify"):
        whole = _minified(config, whole)
    form = opts.get("output") or "yaml"
    if form == "yaml":
        await process.write(to_yaml(whole))
    elif form == "json":
        await process.write(to_json({**whole, **{part: _sorted(whole[part], part) for part in PARTS}}, sort=False))
    else:
        await process.write(printing.formatted(form, whole))
    return 0


def _sorted(entries: list[Obj] | None, part: str) -> list[Obj] | None:
    inner = PARTS[part]

    def place(pair: tuple[str, object]) -> int:
        return ORDER.index(pair[0]) if pair[0] in ORDER else len(ORDER)

    return entries and [
        {"name": each["name"], inner: dict(sorted(each[inner].items(), key=place))} for each in entries
    ]


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
    if opts.get("output") not in ("", "name"):
        raise KubectlError(
            f"error: --output {opts.get('output')} is not available in kubectl config get-contexts; resetting to "
            "default output format"
        )
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


async def get_names(process: Process, opts: Flags) -> int:
    """List the clusters or the users."""
    part = opts.command.rpartition("-")[2]
    await process.write("".join(f"{name}\n" for name in ["NAME", *sorted(load(process, opts).parts[part])]))
    return 0


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


def _one(opts: Flags, count: int = 1) -> str:
    if len(opts.args) != count:
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


async def rename_context(process: Process, opts: Flags) -> int:
    """Give a context another name."""
    _one(opts, 2)
    old, new = opts.args
    config = load(process, opts)
    contexts = config.parts["contexts"]
    if old not in contexts:
        raise KubectlError(f'error: cannot rename the context "{old}", it\'s not in {config.path}')
    if new in contexts:
        raise KubectlError(
            f'error: cannot rename the context "{old}", the context "{new}" already exists in {config.path}'
        )
    contexts[new] = contexts.pop(old)
    config.current = new if config.current == old else config.current
    save(process, config)
    await process.write(f'Context "{old}" renamed to "{new}".\n')
    return 0


async def delete_entry(process: Process, opts: Flags) -> int:
    """Forget a context, a cluster or a user."""
    if not opts.args and not opts.command.endswith("user"):
        await process.write(about.usage_of(opts.command))
        return 0
    part = opts.command.rpartition("-")[2] + "s"
    name, config = _one(opts), load(process, opts)
    title = TITLES[part]
    if name not in config.parts[part]:
        raise KubectlError(f"error: cannot delete {title} {name}, not in {config.path}")
    if part == "contexts" and config.current == name:
        text = 'warning: this removed your active context, use "kubectl config use-context" to select a different one'
        await process.error(text + "\n")
    del config.parts[part][name]
    save(process, config)
    await process.write(f"deleted {title} {name} from {config.path}\n")
    return 0


CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
USER_FIELDS = ("token", "username", "password")
FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key")}


async def set_entry(process: Process, opts: Flags) -> int:
    """Make a cluster or a user, or change one."""
    part = "users" if opts.command.endswith("credentials") else "clusters"
    if part == "users" and len(opts.args) != 1:
        raise KubectlError(f"error: unexpected args: [{' '.join(opts.args)}]")
    name = _one(opts)
    _check_entry(process, opts, part)
    config = load(process, opts)
    inner = config.parts[part].setdefault(name, {} if part == "users" else {"server": ""})
    (_set_user if part == "users" else _set_cluster)(opts, inner)
    for flag in FILES[part]:
        if flag in opts:
            _set_file(process, opts, inner, flag)
    save(process, config)
    await process.write(f'{"User" if part == "users" else "Cluster"} "{name}" set.\n')
    return 0


def _check_entry(process: Process, opts: Flags, part: str) -> None:
    """Refuse what does not go together. Raises KubectlError."""
    ways = {"--token": opts.get("token"), "--username/--password": opts.get("username") or opts.get("password")}
    given = [name for name, value in ways.items() if value]
    if part == "users" and len(given) > 1:
        raise KubectlError(
            f"error: you cannot specify more than one authentication method at the same time: {', '.join(given)}"
        )
    if part == "clusters" and opts.on("insecure-skip-tls-verify") and opts.get("certificate-authority"):
        raise KubectlError("error: you cannot specify a certificate authority and insecure mode at the same time")
    if not opts.on("embed-certs"):
        return
    named = [flag for flag in FILES[part] if opts.get(flag)]
    if not named:
        wanted = " or ".join(f"--{flag}" for flag in FILES[part])
        raise KubectlError(f"error: you must specify a {wanted} to embed")
    for flag in named:
        if process.view.find(opts.get(flag)) is None:
            path = opts.get(flag)
            raise KubectlError(f"error: could not stat {flag} file {path}: stat {path}: no such file or directory")


def _set_cluster(opts: Flags, inner: Obj) -> None:
    if "server" in opts:
        inner.pop("tls-server-name", None)
    for flag in CLUSTER_FIELDS:
        if flag in opts:
            inner[flag] = opts.on(flag) if flag.startswith("insecure") else opts.get(flag)
    if opts.on("insecure-skip-tls-verify"):
        for key in ("certificate-authority", "certificate-authority-data"):
            inner.pop(key, None)


def _set_user(opts: Flags, inner: Obj) -> None:
    inner |= {flag: opts.get(flag) for flag in USER_FIELDS if flag in opts}
    gone = ("username", "password") if opts.get("token") else ("token",) if opts.get("username") else ()
    for key in gone:
        inner.pop(key, None)
    if "exec-command" in opts:
        known = inner.get("exec") or {"args": None, "command": "", "env": None, "provideClusterInfo": False}
        inner["exec"] = {**known, "command": opts.get("exec-command"), "args": None}
    plugin = inner.get("exec")
    if not isinstance(plugin, dict):
        return
    values = {"apiVersion": "exec-api-version", "interactiveMode": "exec-interactive-mode"}
    plugin |= {key: opts.get(flag) for key, flag in values.items() if flag in opts}
    plugin |= {"args": opts.words("exec-arg")} if "exec-arg" in opts else {}
    plugin |= {"provideClusterInfo": True} if opts.on("exec-provide-cluster-info") else {}
    known = {each["name"]: each["value"] for each in plugin.get("env") or []}
    known |= dict(pair.split("=", 1) for pair in opts.all("exec-env") if "=" in pair)
    if known:
        plugin["env"] = [{"name": name, "value": value} for name, value in known.items()]


def _set_file(process: Process, opts: Flags, inner: Obj, flag: str) -> None:
    """Name a certificate or key by its path, or put it in."""
    inner.pop("insecure-skip-tls-verify", None)
    path = posixpath.normpath(posixpath.join(process.cwd, opts.get(flag)))
    if opts.on("embed-certs"):
        inner[f"{flag}-data"] = base64.b64encode(process.view.read(path)).decode()
        inner.pop(flag, None)
    else:
        inner[flag] = path
        inner.pop(f"{flag}-data", None)


async def set_value(process: Process, opts: Flags) -> int:
    """Set or unset one field, named by its path."""
    setting = opts.command == "config set"
    _one(opts, 2 if setting else 1)
    path, config = opts.args[0], load(process, opts)
    part, _, rest = path.partition(".")
    if path == "current-context":
        config.current = opts.args[1] if setting else ""
    elif part not in config.parts or not rest:
        raise KubectlError(f"error: unable to parse {path} after [] at api.Config")
    else:
        _change(config.parts[part], rest, opts.args[1] if setting else None)
    save(process, config)
    await process.write(f'Property "{path}" {"set" if setting else "unset"}.\n')
    return 0


def _change(entries: dict[str, Obj], rest: str, value: str | None) -> None:
    name, dot, key = rest.rpartition(".")
    if not dot or rest in entries:
        if value is None:
            entries.pop(rest, None)
        return
    inner = entries.setdefault(name, {})
    if value is None:
        inner.pop(key, None)
    elif key in ("insecure-skip-tls-verify", "disable-compression"):
        if value not in TRUE + FALSE:
            raise KubectlError(f'error: strconv.ParseBool: parsing "{value}": invalid syntax')
        inner.pop(key, None)
        inner |= {key: True} if value in TRUE else {}
    else:
        inner[key] = value == "true" if value in ("true", "false") else value


async def plugins(process: Process, opts: Flags) -> int:
    """List the programs of the path that extend kubectl."""
    found = []
    for folder in process.env.get("PATH", "").split(":"):
        node = process.view.find(folder)
        if isinstance(node, Directory):
            found += [f"{folder}/{name}" for name in sorted(node.names()) if name.startswith("kubectl-")]
    if not found:
        raise KubectlError("error: unable to find any kubectl plugins in your PATH")
    await process.write(
        "The following compatible plugins are available:\n\n" + "".join(f"{each}\n" for each in found)
    )
    return 0
