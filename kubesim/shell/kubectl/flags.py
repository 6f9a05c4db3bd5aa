"""The flags of kubectl's commands, and their refusal in kubectl's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubesim.shell.kubectl.client import KubectlError

TRUE = ("true", "1", "t", "T", "TRUE", "True")
FALSE = ("false", "0", "f", "F", "FALSE", "False")

# ``name``, with ``/s`` a short form; ``=`` needs a value, ``=x`` has x where none is given; without it is a boolean.
EVERYWHERE = (
    "namespace/n=! context=! token=! cluster=! user=! as=! as-group=! as-uid=! kubeconfig=! request-timeout=! "
    "server/s=! v/v=! insecure-skip-tls-verify certificate-authority=! client-certificate=! client-key=! cache-dir=! "
    "tls-server-name=! warnings-as-errors match-server-version username=! password=! disable-compression "
    "kuberc=! log-flush-frequency=! profile=! profile-output=! vmodule=! help/h"
)
_FILES = "filename/f=! recursive/R kustomize/k=!"
_SELECT = "selector/l=! all-namespaces/A"
_PRINT = "output/o=! template=! show-managed-fields allow-missing-template-keys"
_CHANGE = f"{_PRINT} dry-run=unchanged field-manager=!"
_MAKE = f"{_CHANGE} save-config validate=strict"
_ROLL = f"{_FILES} {_PRINT} selector/l=!"
_SET = f"{_FILES} {_CHANGE} selector/l=! all local"
FLAGS: dict[str, str] = {
    "get": f"{_FILES} {_SELECT} {_PRINT} field-selector=! show-labels no-headers sort-by=! watch/w watch-only "
    "label-columns/L=! ignore-not-found show-kind output-watch-events chunk-size=! server-print raw=! subresource=!",
    "describe": f"{_FILES} {_SELECT} show-events chunk-size=!",
    "logs": "follow/f previous/p container/c=! tail=! timestamps since=! since-time=! limit-bytes=! selector/l=! "
    "all-containers prefix all-pods ignore-errors max-log-requests=! pod-running-timeout=! "
    "insecure-skip-tls-verify-backend",
    "apply": f"{_FILES} {_CHANGE} server-side force-conflicts validate=strict prune selector/l=! all overwrite force "
    "grace-period=! timeout=! wait cascade=background prune-allowlist=! openapi-patch subresource=!",
    "apply view-last-applied": f"{_FILES} output/o=! selector/l=! all",
    "apply set-last-applied": f"filename/f=! {_PRINT} dry-run=unchanged create-annotation",
    "apply edit-last-applied": f"{_FILES} {_PRINT} field-manager=! validate=strict windows-line-endings",
    "create": f"{_FILES} {_MAKE} selector/l=! edit raw=! windows-line-endings",
    "create deployment": f"{_MAKE} image=! port=! replicas/r=!",
    "create configmap": f"{_MAKE} from-literal=! from-file=! from-env-file=! append-hash",
    "create secret generic": f"{_MAKE} from-literal=! from-file=! from-env-file=! append-hash type=!",
    "create secret docker-registry": f"{_MAKE} docker-server=! docker-username=! docker-password=! docker-email=! "
    "append-hash from-file=!",
    "create secret tls": f"{_MAKE} cert=! key=! append-hash",
    "create job": f"{_MAKE} image=! from=!",
    "create cronjob": f"{_MAKE} image=! schedule=! restart=!",
    "create namespace": _MAKE,
    "create serviceaccount": _MAKE,
    "create role": f"{_MAKE} verb=! resource=! resource-name=!",
    "create clusterrole": f"{_MAKE} verb=! resource=! resource-name=! non-resource-url=! aggregation-rule=!",
    "create rolebinding": f"{_MAKE} role=! clusterrole=! user=! group=! serviceaccount=!",
    "create clusterrolebinding": f"{_MAKE} clusterrole=! user=! group=! serviceaccount=!",
    "create quota": f"{_MAKE} hard=! scopes=!",
    "create priorityclass": f"{_MAKE} value=! description=! global-default preemption-policy=!",
    "create poddisruptionbudget": f"{_MAKE} selector=! min-available=! max-unavailable=!",
    "create ingress": f"{_MAKE} rule=! class=! annotation=! default-backend=!",
    "create token": f"{_PRINT} audience=! duration=! bound-object-kind=! bound-object-name=! bound-object-uid=!",
    **{f"create service {kind}": f"{_MAKE} tcp=! {more}" for kind, more in (
        ("clusterip", "clusterip=!"), ("nodeport", "node-port=!"), ("loadbalancer", ""),
        ("externalname", "external-name=!"),
    )},
    "run": f"{_FILES} {_CHANGE} save-config image=! image-pull-policy=! env=! labels/l=! "
    "annotations=! port=! restart=! rm stdin/i tty/t "
    "attach command expose overrides=! override-type=! quiet/q leave-stdin-open grace-period=! force timeout=! "
    "privileged pod-running-timeout=! cascade=background wait",
    "expose": f"{_FILES} {_CHANGE} port=! target-port=! name=! type=! protocol=! selector=! labels/l=! cluster-ip=! "
    "external-ip=! load-balancer-ip=! session-affinity=! overrides=! override-type=! save-config",
    "autoscale": f"{_FILES} {_CHANGE} min=! max=! cpu-percent=! cpu=! memory=! name=! save-config",
    "delete": f"{_FILES} {_SELECT} output/o=! all force grace-period=! now wait timeout=! ignore-not-found "
    "cascade=background field-selector=! dry-run=unchanged interactive/i raw=!",
    "scale": f"{_FILES} {_PRINT} dry-run=unchanged replicas=! current-replicas=! resource-version=! selector/l=! "
    "all timeout=!",
    **dict.fromkeys(("label", "annotate"), f"{_FILES} {_CHANGE} {_SELECT} overwrite all list local "
    "resource-version=! field-selector=!"),
    "patch": f"{_FILES} {_CHANGE} patch/p=! patch-file=! type=! subresource=! local",
    "replace": f"{_FILES} {_CHANGE} force grace-period=! cascade=background timeout=! wait validate=strict "
    "subresource=! save-config raw=!",
    "edit": f"{_FILES} {_PRINT} field-manager=! validate=strict save-config windows-line-endings output-patch "
    "subresource=!",
    "diff": f"{_FILES} selector/l=! server-side force-conflicts field-manager=! show-managed-fields prune "
    "concurrency=! prune-allowlist=!",
    "wait": f"filename/f=! recursive/R {_PRINT} {_SELECT} for=! timeout=! all field-selector=! local",
    "explain": "recursive api-version=! output/o=!",
    "set image": _SET,
    "set env": f"{_SET} containers/c=! env/e=! from=! keys=! list overwrite prefix=! resolve",
    "set resources": f"{_SET} containers/c=! limits=! requests=!",
    "set serviceaccount": f"{_FILES} {_CHANGE} all local",
    "set selector": f"filename/f=! recursive/R {_CHANGE} all local resource-version=!",
    "set subject": f"{_SET} user=! group=! serviceaccount=!",
    "exec": "container/c=! stdin/i tty/t quiet/q filename/f=! pod-running-timeout=!",
    "attach": "container/c=! stdin/i tty/t quiet/q pod-running-timeout=! detach-keys=!",
    "cp": "container/c=! no-preserve retries=!",
    "port-forward": "address=! pod-running-timeout=!",
    "debug": "image=! container/c=! stdin/i tty/t target=! quiet/q attach env=! copy-to=! replace same-node "
    "set-image=! share-processes profile=! image-pull-policy=! arguments-only custom=! keep-labels filename/f=! "
    "keep-annotations "
    "keep-init-containers keep-liveness keep-readiness keep-startup",
    **dict.fromkeys(("cordon", "uncordon"), "selector/l=! dry-run=unchanged"),
    "drain": "selector/l=! dry-run=unchanged ignore-daemonsets delete-emptydir-data force grace-period=! timeout=! "
    "disable-eviction pod-selector=! skip-wait-for-delete-timeout=! chunk-size=!",
    "taint": f"{_PRINT} overwrite selector/l=! all dry-run=unchanged field-manager=! validate=strict",
    "rollout status": f"{_FILES} watch/w timeout=! selector/l=! revision=!",
    **dict.fromkeys(("rollout restart", "rollout pause", "rollout resume"), f"{_ROLL} field-manager=!"),
    "rollout history": f"{_ROLL} revision=!",
    "rollout undo": f"{_ROLL} to-revision=! dry-run=unchanged",
    "auth can-i": "all-namespaces/A quiet/q subresource=! list no-headers",
    "auth whoami": _PRINT,
    "auth reconcile": f"{_FILES} {_PRINT} dry-run=unchanged remove-extra-permissions remove-extra-subjects",
    "certificate approve": f"{_FILES} {_PRINT} force",
    "certificate deny": f"{_FILES} {_PRINT} force",
    "api-resources": "show-managed-fields namespaced api-group=! no-headers output/o=! sort-by=! verbs=! cached "
    "categories=!",
    "api-versions": "",
    "version": "client output/o=!",
    "events": f"{_PRINT} all-namespaces/A for=! types=! no-headers watch/w chunk-size=!",
    "top pod": "all-namespaces/A selector/l=! field-selector=! containers no-headers sort-by=! sum "
    "use-protocol-buffers show-swap",
    "top node": "selector/l=! no-headers sort-by=! show-capacity use-protocol-buffers show-swap",
    "config view": f"raw minify flatten merge {_PRINT}",
    **dict.fromkeys(("config current-context", "config get-clusters", "config get-users", "config use-context",
        "config rename-context", "config delete-context", "config delete-cluster", "config delete-user",
        "config unset"), ""),
    "config get-contexts": "no-headers output/o=!",
    "config set-context": "current cluster=! user=! namespace=!",
    "config set-cluster": "server=! embed-certs certificate-authority=! insecure-skip-tls-verify tls-server-name=! "
    "proxy-url=!",
    "config set-credentials": "token=! username=! password=! client-certificate=! client-key=! embed-certs "
    "auth-provider=! auth-provider-arg=! exec-command=! exec-api-version=! exec-arg=! exec-env=! "
    "exec-interactive-mode=! exec-provide-cluster-info",
    "config set": "set-raw-bytes",
    "plugin list": "name-only",
    "completion": "",
    "alpha": "",
    "cluster-info": "",
    "cluster-info dump": f"{_PRINT} all-namespaces/A namespaces=! output-directory=! pod-running-timeout=!",
    "proxy": "accept-hosts=! accept-paths=! address=! api-prefix=! append-server-path disable-filter keepalive=! "
    "port/p=! reject-methods=! reject-paths=! unix-socket/u=! www/w=! www-prefix/P=!",
    "kustomize": "output/o=! enable-helm enable-alpha-plugins env/e=! load-restrictor=! mount=! network "
    "network-name=! reorder=! as-current-user helm-command=! enable-managedby-label enable-exec helm-api-versions=! "
    "helm-debug "
    "helm-kube-version=!",
    "options": "",
    "help": "",
}  # fmt: skip
REQUIRED = {
    "create deployment": ("image",),
    "create cronjob": ("image", "schedule"),
    "create clusterrolebinding": ("clusterrole",),
    "create service externalname": ("external-name",),
    "run": ("image",),
    "scale": ("replicas",),
    "autoscale": ("max",),
}
ALIASES = {
    **{f"top {word}": "top pod" for word in ("pods", "po")},
    **{f"top {word}": "top node" for word in ("nodes", "no")},
    "log": "logs",
    "create deploy": "create deployment",
    "create cm": "create configmap",
    "create ns": "create namespace",
    "create sa": "create serviceaccount",
    "create cj": "create cronjob",
    "create ing": "create ingress",
    "create resourcequota": "create quota",
    "create pc": "create priorityclass",
    "create pdb": "create poddisruptionbudget",
    "create svc": "create service",
    "set sa": "set serviceaccount",
    "config use": "config use-context",
}
ORDER = (
    *("create", "expose", "run", "set", "explain", "get", "edit", "delete", "rollout", "scale", "autoscale"),
    *("certificate", "cluster-info", "top", "cordon", "uncordon", "drain", "taint", "describe", "logs", "attach"),
    *("exec", "port-forward", "proxy", "cp", "auth", "debug", "events", "diff", "apply", "patch", "replace", "wait"),
    *("kustomize", "label", "annotate", "completion", "alpha", "config", "plugin", "version", "api-versions"),
    *("api-resources", "options"),
)
"""The order in which commands are suggested."""
GROUPS = {command.rpartition(" ")[0] for command in FLAGS if " " in command}
"""Words that commands begin with."""


@dataclass
class Flags:
    """A command line: the flags with their values, the words, and those after ``--``."""

    command: str
    given: dict[str, list[str]] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    after: list[str] | None = None

    def __contains__(self, name: str) -> bool:
        """Tell whether a flag was given at all."""
        return name in self.given

    def on(self, name: str, default: bool = False) -> bool:
        """Return a boolean flag."""
        return self.given[name][-1] == "true" if name in self.given else default

    def get(self, name: str, default: str = "") -> str:
        """Return the last value of a flag."""
        return self.given[name][-1] if name in self.given else default

    def all(self, name: str) -> list[str]:
        """Return every value of a flag."""
        return self.given.get(name, [])

    @property
    def files(self) -> list[str]:
        """The manifests that are named, be it one by one or by a folder to build."""
        return self.all("filename") + self.all("kustomize")

    def words(self, name: str) -> list[str]:
        """Return the values of a flag that takes lists with commas."""
        return [part for value in self.all(name) for part in value.split(",") if part]


def known(command: str) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return what flags are when they have no value ("!": they need one, None: booleans), and short names."""
    kinds: dict[str, str | None] = {}
    short: dict[str, str] = {}
    for spec in f"{EVERYWHERE} {FLAGS.get(command, '')}".split():
        names, equals, value = spec.partition("=")
        name, _, letter = names.partition("/")
        kinds[name] = value if equals else None
        if letter:
            short[letter] = name
    return kinds, short


def parse(words: list[str]) -> Flags:
    """Read kubectl's command line; raises KubectlError in its words. ``command`` is "" where none was given."""
    found = read(words)
    command = found.command
    if command not in FLAGS:
        return found
    missing = [name for name in REQUIRED.get(command, ()) if name not in found]
    if missing and not found.on("help"):
        listed = ", ".join(f'"{name}"' for name in missing)
        raise KubectlError(f"error: required flag(s) {listed} not set")
    return found


def read(words: list[str]) -> Flags:
    """Read a command line that may lack what its command requires. Raises KubectlError."""
    words = list(words)
    command = _command(words)
    found = Flags(command)
    kinds, short = known(command)
    while words:
        word = words.pop(0)
        if word == "--":
            found.after = words
            break
        if word.startswith("--"):
            _long(found, word, words, kinds)
        elif len(word) > 1 and word[0] == "-":
            _short(found, word, words, kinds, short)
        else:
            found.args.append(word)
    return found


def _command(words: list[str]) -> str:
    """Take the command out of the words; flags that every command has may stand before it."""
    at, command = 0, ""
    valued = {f"--{spec.split('=')[0].split('/')[0]}" for spec in EVERYWHERE.split() if "=" in spec}
    valued |= {f"-{spec.split('=')[0].split('/')[1]}" for spec in EVERYWHERE.split() if "=" in spec and "/" in spec}
    while at < len(words) and words[at] != "--":
        if words[at].startswith("-"):
            at += 2 if words[at] in valued else 1
            continue
        longer = f"{command} {words[at]}".strip()
        longer = ALIASES.get(longer, longer)
        if longer not in FLAGS and longer not in GROUPS:
            break
        command = longer
        del words[at]
        if command not in GROUPS:
            break
    if command not in FLAGS:
        _refuse(command, next((word for word in words[at : at + 1] if word != "--"), ""))
    return command


def _refuse(group: str, word: str) -> None:
    """Refuse what is no command; raises KubectlError unless nothing was asked but help."""
    if not group and word:
        raise KubectlError(f'error: unknown command "{word}" for "kubectl"{_suggested(word)}')
    if word and group in ("rollout", "auth", "config", "set", "top", "plugin"):
        raise KubectlError(f"error: unknown command \"{word}\"\nSee 'kubectl {group} -h' for help and examples")
    if word:
        raise KubectlError(
            f"error: unknown command \"{group} {word}\"\nSee 'kubectl {group} -h' for help and examples"
        )


def _suggested(word: str) -> str:
    names = [*ORDER, *sorted({name.split()[0] for name in FLAGS} - {*ORDER})]
    near = [name for name in names if _distance(word, name) <= 2 or name.startswith(word)]
    return "\n\nDid you mean this?\n" + "".join(f"\t{name}\n" for name in near).rstrip("\n") if near else ""


def _distance(one: str, other: str) -> int:
    """Return how many letters must change to make one word of the other."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, row[0] = row[0], at
        for to, wanted in enumerate(other, 1):
            last, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, last + (letter != wanted))
    return row[-1]


def _wrong(found: Flags, text: str) -> KubectlError:
    return KubectlError(f"error: {text}\nSee 'kubectl {found.command} --help' for usage.")


def _keep(found: Flags, name: str, value: str, kind: str | None, shown: str) -> None:
    if kind is None:
        if value not in TRUE + FALSE:
            reason = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            letter = next(
                (
                    f"-{each.partition('=')[0].partition('/')[2]}, "
                    for each in f"{EVERYWHERE} {FLAGS[found.command]}".split()
                    if each.partition("=")[0].startswith(f"{name}/")
                ),
                "",
            )
            raise _wrong(found, f'invalid argument "{value}" for "{letter}--{name}" flag: {reason}')
        value = "true" if value in TRUE else "false"
    found.given.setdefault(name, []).append(value)


def _long(found: Flags, word: str, words: list[str], kinds: Mapping[str, str | None]) -> None:
    name, equals, value = word[2:].partition("=")
    if name not in kinds:
        raise _wrong(found, f"unknown flag: --{name}")
    kind = kinds[name]
    if not equals:
        if kind == "!" and not words:
            raise _wrong(found, f"flag needs an argument: --{name}")
        value = "true" if kind is None else words.pop(0) if kind == "!" else kind
    _keep(found, name, value, kind, f"--{name}")


def _short(
    found: Flags, word: str, words: list[str], kinds: Mapping[str, str | None], short: Mapping[str, str]
) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in short:
            raise _wrong(found, f"unknown shorthand flag: '{letter}' in {word}")
        name = short[letter]
        kind = kinds[name]
        value = "true"
        if letters.startswith("=") or (kind is not None and letters):
            value, letters = letters.removeprefix("="), ""
        elif kind is not None:
            if not words:
                raise _wrong(found, f"flag needs an argument: '{letter}' in {word}")
            value = words.pop(0)
        _keep(found, name, value, kind, f"-{letter}, --{name}")
