"""The flags of kubectl's commands, and their refusal in kubectl's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubesim.shell.kubectl.client import KubectlError

TRUE = ("true", "1", "t", "T", "TRUE", "True")
FALSE = ("false", "0", "f", "F", "FALSE", "False")

# ``name``, with ``/s`` a short form; ``=`` needs a value, ``=x`` has x where none is given; without it is a boolean.
EVERYWHERE = "namespace/n=! context=! token=! cluster=! user=!"
_FILES = "filename/f=! recursive/R"
_SELECT = "selector/l=! all-namespaces/A"
_CHANGE = "output/o=! dry-run=unchanged show-managed-fields"
FLAGS: dict[str, str] = {
    "get": f"{_FILES} {_SELECT} output/o=! field-selector=! show-labels no-headers show-managed-fields sort-by=! "
    "watch/w watch-only label-columns/L=! ignore-not-found show-kind output-watch-events",
    "describe": f"{_FILES} {_SELECT} show-events",
    "logs": "follow/f previous/p container/c=! tail=! timestamps since=! since-time=! limit-bytes=! selector/l=! "
    "all-containers prefix",
    "apply": f"{_FILES} {_CHANGE} server-side force-conflicts field-manager=!",
    "create": f"{_FILES} {_CHANGE}",
    "delete": f"{_FILES} {_SELECT} output/o=! all force grace-period=! now wait timeout=! ignore-not-found "
    "cascade=background field-selector=! dry-run=unchanged",
    "scale": f"{_FILES} {_CHANGE} replicas=! current-replicas=! selector/l=! all",
    "label": f"{_FILES} {_CHANGE} {_SELECT} overwrite all",
    "annotate": f"{_FILES} {_CHANGE} {_SELECT} overwrite all",
    "patch": f"{_FILES} {_CHANGE} patch/p=! patch-file=! type=!",
    "cordon": "selector/l=! dry-run=unchanged",
    "uncordon": "selector/l=! dry-run=unchanged",
    "drain": "selector/l=! dry-run=unchanged ignore-daemonsets delete-emptydir-data force grace-period=! timeout=! "
    "disable-eviction",
    "taint": "overwrite selector/l=! all dry-run=unchanged",
    "rollout status": "watch/w timeout=! selector/l=!",
    "rollout restart": "selector/l=!",
    "rollout pause": "selector/l=!",
    "rollout resume": "selector/l=!",
    "rollout history": "revision=! selector/l=!",
    "rollout undo": "to-revision=! selector/l=!",
    "auth can-i": "all-namespaces/A quiet/q subresource=!",
    "auth whoami": "output/o=!",
    "api-resources": "namespaced api-group=! no-headers output/o=! sort-by=! verbs=!",
    "api-versions": "",
    "version": "client output/o=!",
    "events": "all-namespaces/A for=! types=! no-headers",
    "top pod": "all-namespaces/A selector/l=! containers no-headers",
    "top node": "selector/l=! no-headers",
    "config view": "raw minify output/o=!",
    "config current-context": "",
    "config get-contexts": "no-headers output/o=!",
    "cluster-info": "",
    "diff": _FILES,
}
ALIASES = {"top pods": "top pod", "top po": "top pod", "top nodes": "top node", "top no": "top node", "log": "logs"}
GROUPS = {command.split()[0] for command in FLAGS if " " in command}


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

    def words(self, name: str) -> list[str]:
        """Return the values of a flag that takes lists with commas."""
        return [part for value in self.all(name) for part in value.split(",") if part]


def _known(command: str) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return what flags are when they have no value ("!": they need one, None: booleans), and short names."""
    kinds: dict[str, str | None] = {}
    short: dict[str, str] = {}
    for spec in f"{EVERYWHERE} {FLAGS[command]}".split():
        names, equals, value = spec.partition("=")
        name, _, letter = names.partition("/")
        kinds[name] = value if equals else None
        if letter:
            short[letter] = name
    return kinds, short


def parse(words: list[str]) -> Flags:
    """Read kubectl's command line; raises KubectlError in its words. ``command`` is "" where none was given."""
    words = list(words)
    command = _command(words)
    found = Flags(command)
    if not command:
        return found
    kinds, short = _known(command)
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
    at = 0
    parts: list[str] = []
    valued = {f"--{spec.split('=')[0].split('/')[0]}" for spec in EVERYWHERE.split()} | {"-n"}
    while at < len(words) and words[at] != "--":
        if words[at].startswith("-"):
            at += 2 if words[at] in valued else 1
            continue
        if parts and parts[0] not in GROUPS:
            break
        parts.append(words.pop(at))
        if len(parts) == 2:
            break
    return _named(" ".join(parts), parts)


def _named(command: str, parts: list[str]) -> str:
    command = ALIASES.get(command, command)
    if command in FLAGS or not parts:
        return command
    if parts[0] in GROUPS:
        return parts[0] if len(parts) == 1 else _refuse_inner(parts)
    raise KubectlError(f'error: unknown command "{parts[0]}" for "kubectl"{_suggested(parts[0])}')


def _refuse_inner(parts: list[str]) -> str:
    raise KubectlError(
        f"error: unknown command \"{' '.join(parts)}\"\nSee 'kubectl {parts[0]} -h' for help and examples"
    )


def _suggested(word: str) -> str:
    near = sorted(
        {name.split()[0] for name in FLAGS if _distance(word, name.split()[0]) <= 2 or name.startswith(word)}
    )
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
            raise _wrong(found, f'invalid argument "{value}" for "{shown}" flag: {reason}')
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
