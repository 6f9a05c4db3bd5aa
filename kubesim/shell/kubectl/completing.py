"""kubectl __complete: what the last word of a command line may become, as kubectl's completion script asks.

The directives are those of https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesim.shell.errors import NetworkError
from kubesim.shell.kubectl import about, flags
from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.kubeconfig import load
from kubesim.shell.kubectl.streams import pod_of
from kubesim.shell.machine import Process

DEFAULT, NO_SPACE, NO_FILES, BY_ENDING = 0, 2, 4, 8
DIRECTIVES = {NO_SPACE: "NoSpace", NO_FILES: "NoFileComp", BY_ENDING: "FilterFileExt"}
FORMATS = (
    *("json", "yaml", "name", "go-template", "go-template-file", "template", "templatefile", "jsonpath"),
    *("jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file", "wide"),
)
ROLLED = ("deployment", "daemonset", "statefulset")
SCALED = ("deployment", "replicaset", "replicationcontroller", "statefulset")
HOLDERS = (
    *("daemonsets", "deployments", "pods", "jobs", "replicasets", "replicationcontrollers", "services"),
    "statefulsets",
)
ANY_KIND = {
    *("get", "debug", "edit", "annotate", "label", "describe"),
    *("delete", "patch"),
}
KINDS = {
    **dict.fromkeys(("rollout pause", "rollout resume"), ("deployment",)),
    **dict.fromkeys(("rollout restart", "rollout undo", "rollout status", "rollout history"), ROLLED),
    **dict.fromkeys(("scale", "autoscale"), SCALED),
    "expose": ("pod", "service", "replicationcontroller", "deployment", "replicaset"),
    "taint": ("node",),
    "set image": ("daemonsets", "deployments", "pods", "cronjobs", "replicasets", "replicationcontrollers",
                  "statefulsets"),
}  # fmt: skip
ONE_OBJECT = {"rollout status", "set image"}
NAME_OF = {
    **dict.fromkeys(("cordon", "uncordon", "drain", "top node"), "node"),
    "top pod": "pod",
    "create token": "serviceaccount",
}
OF_CONTEXTS = ("config use-context", "config delete-context", "config rename-context", "config set-context")


@dataclass
class Answer:
    """What a word may become, each with a description after a tab or without, and how the shell goes on."""

    choices: list[str]
    directive: int = NO_FILES


@dataclass
class Asked:
    """A command line as far as it has been typed, and the word to complete."""

    process: Process
    client_of: Callable[[Process, Flags], Client]
    opts: Flags
    word: str

    @property
    def client(self) -> Client:
        """The way to the server. Raises KubectlError."""
        return self.client_of(self.process, self.opts)


async def answer(process: Process, client_of: Callable[[Process, Flags], Client]) -> int:
    """Print what the last word may become."""
    called, *words, word = [*process.argv, ""] if len(process.argv) == 1 else process.argv[1:]
    found = await _found(process, client_of, words, word)
    plain = called.endswith("NoDesc")
    for choice in found.choices:
        await process.write((choice.partition("\t")[0] if plain else choice) + "\n")
    await process.write(f":{found.directive}\n")
    told = [name for bit, name in DIRECTIVES.items() if found.directive & bit] or ["Default"]
    named = ", ".join(f"ShellCompDirective{name}" for name in told)
    await process.error(f"Completion ended with directive: {named}\n")
    return 0


async def _found(
    process: Process, client_of: Callable[[Process, Flags], Client], words: list[str], word: str
) -> Answer:
    try:
        flag, words, word = _flag_before(words, word)
        opts = flags.read(words)
    except KubectlError:
        return Answer([], DEFAULT)
    if opts.on("help"):
        return Answer([])
    asked = Asked(process, client_of, opts, word)
    try:
        found = await (_value(asked, flag) if flag else _word(asked))
    except (KubectlError, NetworkError):
        return Answer([])
    if found.directive != BY_ENDING:
        found.choices = [choice for choice in found.choices if choice.startswith(word)]
    return found


def _flag_before(words: list[str], word: str) -> tuple[str, list[str], str]:
    """Return the flag whose value is to be completed, the words without it, and the value."""
    if "--" in words:
        return "", words, word
    command = flags.command_of(words)
    kinds, short = flags.known(command)
    if word.startswith("-") and "=" in word:
        name, _, value = word.partition("=")
        named = name[2:] if name.startswith("--") else short.get(name[1:], "")
        return (named, words, value) if named in kinds else ("", words, word)
    last = words[-1] if words else ""
    named = (
        last[2:] if last.startswith("--") else short.get(last[1:], "") if len(last) == 2 and last[0] == "-" else ""
    )
    if kinds.get(named) == "!":
        return named, words[:-1], word
    return "", words, word


async def _value(asked: Asked, flag: str) -> Answer:
    """Complete the value of a flag."""
    command = asked.opts.command
    own = _own(command)
    if flag == "filename" and "filename" in own:
        return Answer(["json", "yaml", "yml"], BY_ENDING)
    if flag == "namespace":
        return Answer(await _names(asked, "namespace"))
    if flag in ("context", "cluster", "user") and flag not in own:
        return Answer(_entries(asked, flag + "s"))
    if flag == "output" and command == "get":
        return Answer(list(FORMATS))
    if flag == "container" and command == "exec":
        return Answer(await _containers(asked))
    return Answer([], DEFAULT)


async def _word(asked: Asked) -> Answer:
    """Complete a word that is no flag's value."""
    opts = asked.opts
    if asked.word.startswith("-") and opts.after is None:
        needed = [each for each in _needed(opts) if each.startswith(asked.word)]
        return Answer(needed or _flags(opts, asked.word))
    below = [] if opts.args or opts.after else _below(opts)
    found = await _arguments(asked)
    return Answer(below + _needed(opts) + found.choices, NO_FILES if below else found.directive)


def _name(spec: str) -> str:
    return spec.partition("=")[0].partition("/")[0]


def _own(command: str) -> set[str]:
    """Return the flags that only some commands have."""
    return {_name(spec) for spec in flags.FLAGS.get(command, "").split()}


def _needed(opts: Flags) -> list[str]:
    return [f"--{name}" for name in flags.REQUIRED.get(opts.command, ()) if name not in opts]


def _flags(opts: Flags, word: str) -> list[str]:
    """Return the flags that may follow, those of every command first."""
    own = f"{flags.FLAGS.get(opts.command, '')} help/h".split()
    shadowed = {_name(spec) for spec in own}
    every = [spec for spec in flags.EVERYWHERE.split() if _name(spec) not in shadowed]
    found = []
    for spec in [*sorted(every, key=_name), *sorted(own, key=_name)]:
        name, _, letter = spec.partition("=")[0].partition("/")
        found.append(f"--{name}")
        if letter and word == "-":
            found.append(f"-{letter}")
    return found


def _below(opts: Flags) -> list[str]:
    """Return the commands that may follow."""
    if _own(opts.command) & {*opts.given}:
        return []
    return _following(opts.command)


def _following(command: str) -> list[str]:
    start = f"{command} ".lstrip()
    return [
        f"{name.removeprefix(start)}\t{text}"
        for name, text in about.told().items()
        if name.startswith(start) and " " not in name.removeprefix(start)
    ]


async def _arguments(asked: Asked) -> Answer:
    command = asked.opts.command
    verb = _VERBS.get(command)
    if verb:
        return await verb(asked)
    if command in ANY_KIND or command in KINDS:
        return await _kind_and_name(asked, KINDS.get(command, ()), repeat=command not in ONE_OBJECT)
    first = not _typed(asked)
    if command in NAME_OF:
        return Answer(await _names(asked, NAME_OF[command]) if first else [])
    if command in OF_CONTEXTS:
        return Answer(_entries(asked, "contexts") if first else [])
    return Answer([], DEFAULT)


def _typed(asked: Asked) -> list[str]:
    return [*asked.opts.args, *(asked.opts.after or [])]


def _entries(asked: Asked, part: str) -> list[str]:
    return sorted(load(asked.process, asked.opts).parts[part])


async def _names(asked: Asked, word: str) -> list[str]:
    """Return the names of objects of one or more kinds."""
    client = asked.client
    found = []
    for each in word.split(","):
        kind = await client.resource(each)
        listed = await client.request("GET", kind.path(client.namespace) + "?limit=500")
        found += [str(item["metadata"]["name"]) for item in listed.get("items") or []]
    return found


async def _kinds(asked: Asked) -> list[str]:
    """Return the kinds that can be got; after a comma, of a list."""
    kinds = sorted(await asked.client.resources(), key=lambda kind: (kind.group, kind.plural))
    head = "".join(asked.word.rpartition(",")[:2])
    return [head + kind.collection for kind in kinds if "get" in kind.verbs]


async def _kind_and_name(asked: Asked, allowed: tuple[str, ...], *, repeat: bool) -> Answer:
    typed, word = _typed(asked), asked.word
    if typed and "/" not in typed[0]:
        if not repeat and len(typed) > 1:
            return Answer([])
        return Answer([name for name in await _names(asked, typed[0]) if name not in typed[1:]])
    kind, slash, _ = word.partition("/")
    if typed and not repeat:
        return Answer([])
    if slash:
        found = [f"{kind}/{name}" for name in await _names(asked, kind)]
        return Answer([each for each in found if each not in typed])
    kinds = list(allowed) or await _kinds(asked)
    return Answer([f"{each}/" for each in kinds], NO_SPACE | NO_FILES) if typed else Answer(kinds)


async def _pods(asked: Asked) -> Answer:
    """Complete a pod, or a kind that has pods with a name."""
    kind, slash, _ = asked.word.partition("/")
    if slash:
        return Answer([f"{kind}/{name}" for name in await _names(asked, kind)])
    names = [name for name in await _names(asked, "pod") if name.startswith(asked.word)]
    kinds = [f"{each}/" for each in HOLDERS]
    return Answer(names + kinds, NO_FILES if names else NO_FILES | NO_SPACE)


async def _pod_first(asked: Asked) -> Answer:
    return Answer([]) if _typed(asked) else await _pods(asked)


async def _pod_then_container(asked: Asked) -> Answer:
    typed = _typed(asked)
    if not typed:
        return await _pods(asked)
    return Answer(await _containers(asked) if len(typed) == 1 else [])


async def _containers(asked: Asked) -> list[str]:
    typed = _typed(asked)
    if not typed:
        return []
    spec = (await pod_of(asked.client, typed[0]))["spec"]
    return [str(each["name"]) for key in ("initContainers", "containers") for each in spec.get(key) or []]


async def _pod_then_port(asked: Asked) -> Answer:
    typed = _typed(asked)
    if len(typed) != 1:
        return Answer([]) if typed else await _pods(asked)
    kind, slash, name = typed[0].partition("/")
    left = asked.word.partition(":")[0]
    if slash and kind in ("service", "services", "svc"):
        path = f"/api/v1/namespaces/{asked.client.namespace}/services/{name}"
        spec = (await asked.client.request("GET", path))["spec"]
        ports = [each["port"] for each in spec.get("ports") or []]
    else:
        spec = (await pod_of(asked.client, typed[0]))["spec"]
        ports = [port["containerPort"] for each in spec["containers"] for port in each.get("ports") or []]
    return Answer([f"{left or port}:{port}" for port in ports])


async def _copied(asked: Asked) -> Answer:
    """Complete a file here, which the shell does, or the pod in which one is."""
    pods = [f"{name}:" for name in await _names(asked, "pod") if name.startswith(asked.word)]
    return Answer(pods if not _typed(asked) else [], NO_SPACE)


async def _shells(asked: Asked) -> Answer:
    return Answer([] if _typed(asked) else ["bash", "zsh", "fish", "powershell"])


async def _commands(asked: Asked) -> Answer:
    return Answer(_following(" ".join(_typed(asked))))


_VERBS: dict[str, Callable[[Asked], Awaitable[Answer]]] = {
    "exec": _pod_first,
    "attach": _pod_first,
    "logs": _pod_then_container,
    "port-forward": _pod_then_port,
    "cp": _copied,
    "completion": _shells,
    "help": _commands,
}
