"""The flags of kubectl's commands, and their refusal in kubectl's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kubesim import data
from kubesim.shell.kubectl.client import KubectlError

TRUE = ("true", "1", "t", "T", "TRUE", "True")
FALSE = ("false", "0", "f", "F", "FALSE", "False")

_TABLE: dict[str, Any] = data.table(__file__, "flags.yaml")
_shared = _TABLE["shared"]
SECTIONS: dict[str, str] = _TABLE["sections"]
"""The commands as the help of kubectl lists them."""
PROFILES: dict[str, Any] = _TABLE["profiles"]
"""The rights of the container of debug; ``general`` adds none to a node's."""
EVERYWHERE: str = _TABLE["everywhere"]
FLAGS: dict[str, str] = {command: flags.format(**_shared) for command, flags in _TABLE["commands"].items()}
NAMES: dict[str, str] = data.table(__file__, "commands.yaml")
"""The commands of a kubectl with their meaning; those that have no flags here are left out."""
_CONDITION = re.compile(r"([a-z-]+)(?:(!=|=|>)(.*))?")
TEXTS: dict[str, str] = data.table(__file__, "texts.yaml")
GROUPS = {command.rpartition(" ")[0] for command in NAMES if " " in command}
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
        """The manifests that are named."""
        return self.all("filename")

    def words(self, name: str) -> list[str]:
        """Return the values of a flag that takes lists with commas."""
        return [part for value in self.all(name) for part in value.split(",") if part]


def parse(words: list[str]) -> Flags:
    """Read kubectl's command line; raises KubectlError in its words. ``command`` is "" where none was given."""
    words = list(words)
    found = Flags(_command(words))
    known, short = _known(found.command)
    while words:
        word = words.pop(0)
        if word == "--":
            found.after = words
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name not in known:
                raise misused(found, f"unknown flag: --{name}")
            _take(found, known[name], value if equals else None, words, f"--{name}")
        elif len(word) > 1 and word[0] == "-":
            _short(found, word, words, short)
        else:
            found.args.append(word)
    missing = [f'"{name}"' for name in _TABLE["required"].get(found.command, ()) if name not in found]
    if missing and not found.on("help"):
        raise KubectlError(f"error: required flag(s) {', '.join(missing)} not set")
    return found


@dataclass(frozen=True)
class _Flag:
    """A flag; its value without one is "!" where it needs one, "-" where it is left out, None of booleans."""

    name: str
    letter: str
    value: str | None


def _known(command: str) -> tuple[dict[str, _Flag], dict[str, _Flag]]:
    """Return the flags of a command by name and by letter."""
    found = []
    for spec in f"{EVERYWHERE} {FLAGS.get(command, '')}".split():
        names, equals, value = spec.removeprefix("-").partition("=")
        name, _, letter = names.partition("/")
        found.append(_Flag(name, letter, "-" if spec.startswith("-") else value if equals else None))
    return {flag.name: flag for flag in found}, {flag.letter: flag for flag in found if flag.letter}


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
        longer = _TABLE["aliases"].get(longer, longer)
        if longer not in NAMES and longer not in GROUPS:
            break
        command = longer
        del words[at]
        if command not in GROUPS:
            break
    if command in NAMES and command not in FLAGS and command not in GROUPS:
        if not {*words} & {"-h", "--help"}:
            raise _left_out(command)
    elif command not in FLAGS:
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


def check(opts: Flags) -> None:
    """Refuse flags and words that do not go together, as ``flags.yaml`` has them. Raises KubectlError."""
    for *conditions, text in _TABLE["refused"].get(opts.command, ()):
        if all(_holds(opts, condition) for condition in conditions):
            given = {name: values[-1] for name, values in opts.given.items()}
            told = {"args": " ".join(opts.args), "count": len(opts.args), "command": opts.command}
            raise KubectlError(text.format(**given | told))


def _holds(opts: Flags, condition: str) -> bool:
    """Return whether flags are as is said: ``name``, ``name=value``, ``name!=one,other``, ``args>1``, ``not ...``."""
    if condition.startswith("not "):
        return not _holds(opts, condition.removeprefix("not "))
    name, sign, wanted = _CONDITION.fullmatch(condition).groups("")  # type: ignore[union-attr]
    if name in ("args", "after"):
        count = len(opts.args if name == "args" else opts.after or ())
        return count == int(wanted) if sign == "=" else count > int(wanted or 0)
    value = opts.get(name)
    if sign == "!=":
        return value not in wanted.split(",")
    return value == wanted if sign else value not in ("", "false")


def _suggested(word: str) -> str:
    known = _TABLE["order"].split()
    names = [name for name in known if name.startswith(word) or get_close_matches(word, [name], 1, 0.65)]
    return "\n\nDid you mean this?\n" + "".join(f"\t{name}\n" for name in names).rstrip("\n") if names else ""


def _left_out(what: str) -> KubectlError:
    """Return the refusal of what only a candidate's own kubectl has."""
    return KubectlError(f"error: this kubectl was built without {what}")


def misused(found: Flags, text: str) -> KubectlError:
    """Return the refusal of a flag."""
    return KubectlError(f"error: {text}\nSee 'kubectl {found.command} --help' for usage.")


def number(opts: Flags, name: str) -> int:
    """Return a flag's whole number; 0 where it is not given. Raises KubectlError in the parser's words."""
    text = opts.get(name, "0")
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        reason = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise misused(opts, f'invalid argument "{text}" for "--{name}" flag: {reason}')
    return int(text)


def _take(found: Flags, flag: _Flag, value: str | None, words: list[str], shown: str) -> None:
    """Keep a flag with its value, which may be the next word. Raises KubectlError."""
    if flag.value == "-":
        raise _left_out(f"--{flag.name}")
    if value is None and flag.value == "!" and not words:
        raise misused(found, f"flag needs an argument: {shown}")
    if value is None:
        value = "true" if flag.value is None else words.pop(0) if flag.value == "!" else flag.value
    if flag.value is None:
        if value not in TRUE + FALSE:
            reason = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            letter = f"-{flag.letter}, " if flag.letter else ""
            raise misused(found, f'invalid argument "{value}" for "{letter}--{flag.name}" flag: {reason}')
        value = "true" if value in TRUE else "false"
    found.given.setdefault(flag.name, []).append(value)


def _short(found: Flags, word: str, words: list[str], short: Mapping[str, _Flag]) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in short:
            raise misused(found, f"unknown shorthand flag: '{letter}' in {word}")
        value = None
        if letters.startswith("=") or (short[letter].value is not None and letters):
            value, letters = letters.removeprefix("="), ""
        _take(found, short[letter], value, words, f"'{letter}' in {word}")
