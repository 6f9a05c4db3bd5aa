"""kubectl config: the contexts, clusters and users of files."""

from __future__ import annotations

from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.kubeconfig import PARTS, Kubeconfig, load
from kubesim.shell.kubectl.texts import to_json, to_yaml
from kubesim.shell.machine import Process

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
