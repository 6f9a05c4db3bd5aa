"""Runs what a candidate types against two clusters and compares what they print.

``python -m kubesim.tests.contract.transcripts --left SIM --right REAL [--kubectl PATH] [--scene NAME]``
runs the scenes of ``transcripts.yaml`` with every kubectl that is found, or with those that are named. The nodes of
the left one are registered on the right one, where kwok keeps them alive, so that both schedulers see the same
machines. With ``--containers`` it runs those of ``transcripts_containers.yaml``: the right one's nodes are then
kubesim's own, which have joined it (``python -m kubesim nodes``). ``--keep DIR`` keeps what was found in each scene
with each kubectl, so that a run can go on where another stopped, and the two can be told in one report.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.tests.contract.normalise import normalise
from kubesim.tests.contract.parity_report import Finding, known, missed, percent, report
from kubesim.tests.contract.tools import every_kubectl

SCRIPTS = Path(__file__).with_name("transcripts.yaml")
CONTAINERS = Path(__file__).with_name("transcripts_containers.yaml")
SECONDS = 90
ON_PURPOSE = ("errors", "tree")
"""Scenes with commands and flags that no kubectl knows."""
NAME = "practice"
LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Command:
    """One line that is typed; ``quiet`` ones prepare, ``save`` keeps an object as saved.yaml."""

    line: str
    stdin: str = ""
    editor: str = ""
    reason: str = ""
    quiet: bool = False
    save: bool = False

    @classmethod
    def of(cls, entry: str | dict[str, str]) -> Command:
        """Read an entry of the file."""
        if isinstance(entry, str):
            return cls(entry)
        for word in ("quiet", "save"):
            if word in entry:
                return cls(entry[word], quiet=True, save=word == "save")
        return cls(entry["run"], entry.get("stdin", ""), entry.get("editor", ""), entry.get("reason", ""))


@dataclass(frozen=True)
class Scene:
    """Commands that follow one another in one namespace."""

    name: str
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Answer:
    """What one command printed, normalised, and its exit status."""

    command: Command
    status: int
    output: str


@dataclass(frozen=True)
class Verdict:
    """One command's two answers."""

    scene: str
    left: Answer
    right: Answer
    again: bool = False
    """Whether it is that of the second play, because the first one's answers differ."""

    @property
    def same(self) -> bool:
        return (self.left.status, self.left.output) == (self.right.status, self.right.output)

    def diff(self) -> str:
        """Return what the right one prints otherwise (+) than the left one (-)."""
        left, right = ([f"exit {each.status}", *each.output.splitlines()] for each in (self.left, self.right))
        return "\n".join([*difflib.unified_diff(left, right, lineterm="", n=1)][2:])


def load(script: Path = SCRIPTS) -> tuple[dict[str, str], list[Scene]]:
    """Return the files by name, and the scenes."""
    document = data.read(script)
    scenes = [Scene(entry["name"], tuple(map(Command.of, entry["commands"]))) for entry in document["scenes"]]
    return document["files"], scenes


class Runner:
    """Plays scenes on one cluster, from a folder of its own."""

    def __init__(
        self, kubectl: str, kubeconfig: Path, folder: Path, files: dict[str, str], *, kubelets: bool = False
    ) -> None:
        self._kubectl = kubectl
        self._kubelets = kubelets
        self._waiting = list(every_kubectl().values())[-1]
        self._folder = folder
        self._config = folder / "kubeconfig"
        self._config.write_text(self._flattened(kubeconfig))
        self._files = files
        self._node = self._call(Command("get nodes -o name"))[1].partition("\n")[0].removeprefix("node/")

    def play(self, scene: Scene, namespace: str) -> list[Answer]:
        """Run a scene in a fresh namespace and return the answers to what is compared."""
        for name, text in self._files.items():
            (self._folder / name).parent.mkdir(exist_ok=True)
            (self._folder / name).write_text(text.replace("{namespace}", namespace))
        self._call(Command(f"create namespace {namespace}"))
        self._call(Command(f"config set-context --current --namespace={namespace}"))
        self._call(Command("wait --for=create serviceaccount/default --timeout=10s"))
        try:
            answers = [self._answer(command, namespace) for command in scene.commands]
        finally:
            self._call(Command(f"delete namespace {namespace} --wait=false"))
        return [answer for answer in answers if not answer.command.quiet]

    def _answer(self, command: Command, namespace: str) -> Answer:
        line = command.line.replace("{namespace}", namespace).replace("{node}", self._node)
        if command.save:
            line = f"get {line} -o yaml"
        status, output = self._call(command, line)
        if command.save:
            (self._folder / "saved.yaml").write_text(output)
        return Answer(command, status, normalise(output, namespace, kubelets=self._kubelets))

    def _call(self, command: Command, line: str = "") -> tuple[int, str]:
        """Return exit status and output; stderr follows stdout, as kubectl's order of the two is a race.

        What is only waited for is waited for by the newest kubectl: not all know how to wait for everything.
        """
        line = line or command.line
        binary = self._waiting if command.quiet and line.startswith("wait ") else self._kubectl
        try:
            done = subprocess.run(
                [binary, *shlex.split(line)],
                input=command.stdin,
                env=self._environment(command),
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"still running after {SECONDS} s\n"
        return done.returncode, done.stdout + done.stderr

    def _environment(self, command: Command) -> dict[str, str]:
        values = {"HOME": str(self._folder), "KUBECONFIG": str(self._config), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
        if command.editor:
            script = self._folder / "editor"
            script.write_text(f'#!/bin/sh\nsed -i {shlex.quote(command.editor)} "$1"\n')
            script.chmod(0o755)
            values["EDITOR"] = str(script)
        return values

    def _flattened(self, kubeconfig: Path) -> str:
        """Return a kubeconfig with its certificates inside and a context that can be given a namespace."""
        arguments = [self._kubectl, "config", "view", "--raw", "--flatten", "-o", "json"]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        found = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout
        return json.dumps(renamed(json.loads(found)))


def renamed(config: dict[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig of one cluster whose names are the same for every cluster."""
    for entries in (config["clusters"], config["users"], config["contexts"]):
        entries[0]["name"] = NAME
    config["contexts"][0]["context"] = {"cluster": NAME, "user": NAME}
    return {**config, "current-context": NAME}


def compare(kubectl: str, options: Any, names: set[str]) -> Iterator[list[Verdict]]:
    """Play the named scenes on both clusters at once and yield the pairs of answers of each scene."""
    files, scenes = load(script_of(options))
    with tempfile.TemporaryDirectory(prefix="transcripts-") as parent, ThreadPoolExecutor(2) as pool:
        runners = []
        for side, kubeconfig in (("left", options.left), ("right", options.right)):
            folder = Path(parent, side)
            folder.mkdir()
            runners.append(Runner(kubectl, kubeconfig, folder, files, kubelets=options.containers))
        for scene in scenes:
            if scene.name in names:
                yield _twice(scene, runners, pool)


def script_of(options: Any) -> Path:
    """Return the file whose scenes are to be played."""
    return CONTAINERS if options.containers else SCRIPTS


def _twice(scene: Scene, runners: list[Runner], pool: ThreadPoolExecutor) -> list[Verdict]:
    """Play a scene, and once more where a difference is not explained; what is the same then counts as the same."""
    verdicts = _played(scene, runners, pool)
    if all(verdict.same or verdict.left.command.reason for verdict in verdicts):
        return verdicts
    again = [replace(verdict, again=True) for verdict in _played(scene, runners, pool)]
    return [other if other.same and not one.same else one for one, other in zip(verdicts, again, strict=True)]


def _played(scene: Scene, runners: list[Runner], pool: ThreadPoolExecutor) -> list[Verdict]:
    """Play one scene on both clusters at once."""
    namespace = f"{scene.name}-{''.join(random.choices(LETTERS, k=6))}"
    plays = [pool.submit(runner.play, scene, namespace) for runner in runners]
    pairs = zip(*(play.result() for play in plays), strict=True)
    return [Verdict(scene.name, one, other) for one, other in pairs]


def copy_nodes(kubectl: str, left: Path, right: Path) -> None:
    """Register the left cluster's nodes on the right one with their labels and capacity."""

    def run(kubeconfig: Path, *arguments: str, text: str = "") -> str:
        command = [kubectl, "--kubeconfig", str(kubeconfig), *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    there = run(right, "get", "nodes", "-o", "name").split()
    for node in json.loads(run(left, "get", "nodes", "-o", "json"))["items"]:
        name = node["metadata"]["name"]
        kept = {key: node["metadata"].get(key, {}) for key in ("name", "labels", "annotations")}
        if f"node/{name}" not in there:
            fresh = {**node, "metadata": kept, "spec": {k: v for k, v in node["spec"].items() if k != "taints"}}
            run(right, "create", "-f", "-", text=json.dumps(fresh))
            status = json.dumps({"status": node["status"]})
            run(right, "patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        run(right, "patch", "node", name, "--type=merge", "-p", json.dumps({"metadata": kept}))


def finding(version: str, verdict: Verdict) -> Finding:
    """Return what a verdict says, without the outputs."""
    command, scene = verdict.left.command, verdict.scene
    applies = known(verdict.left.output, deliberate=scene in ON_PURPOSE and "nosuch" in command.line)
    return Finding(version, scene, command.line, verdict.same, applies, command.reason, verdict.again)


def explained(findings: list[Finding]) -> list[Finding]:
    """Return findings that were kept with the reasons that are given today, without what is no longer asked."""
    scenes = [scene for script in (SCRIPTS, CONTAINERS) for scene in load(script)[1]]
    reasons = {(scene.name, command.line): command.reason for scene in scenes for command in scene.commands}
    asked = [each for each in findings if (each.scene, each.line) in reasons]
    return [replace(each, reason=reasons[each.scene, each.line]) for each in asked]


def judge(version: str, kubectl: str, options: Any) -> list[Finding]:
    """Compare with one kubectl, printing every difference; scenes that ``--keep`` has are not played again."""
    file = options.keep / f"{version}.json" if options.keep else None
    findings = [Finding(**entry) for entry in json.loads(file.read_text())] if file and file.exists() else []
    names = {scene.name for scene in load(script_of(options))[1]}
    named = names & set(options.scene)
    findings = explained([each for each in findings if each.scene not in named])
    known = {each.scene for each in findings}
    for verdicts in compare(kubectl, options, named if options.scene else names - known):
        findings += [finding(version, verdict) for verdict in verdicts]
        for verdict in verdicts:
            if not verdict.same:
                head = f"### {version} {verdict.scene}: kubectl {verdict.left.command.line}"
                print(f"{head}\n{verdict.diff()}\n", flush=True)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps([asdict(each) for each in findings]))
    print(f"kubectl {version}: {percent(findings):.1f} % of {len(findings)} commands are the same", flush=True)
    return findings


def write(findings: list[Finding], page: Path) -> None:
    """Write the report of a whole run; one that lacks scenes would tell less than the page does already."""
    scenes = [scene.name for script in (SCRIPTS, CONTAINERS) for scene in load(script)[1]]
    lacking = [name for name in scenes if name not in {finding.scene for finding in findings}]
    if lacking:
        print(f"{page} is left as it is: not played were {', '.join(lacking)}")
    else:
        page.write_text(report(findings))


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; the status is 1 where a report tells of a goal missed or of a difference with no reason."""
    parser = argparse.ArgumentParser(description="Compare what kubectl prints on two clusters.")
    parser.add_argument("--left", type=Path, required=True, help="kubeconfig of kubesim")
    parser.add_argument("--right", type=Path, required=True, help="kubeconfig of the real control plane")
    parser.add_argument("--kubectl", action="append", default=[], help="a binary to run (may be repeated)")
    parser.add_argument("--scene", action="append", default=[], help="only this scene (may be repeated)")
    parser.add_argument("--containers", action="store_true", help="play what needs containers that run")
    parser.add_argument("--write", type=Path, help="write the report to this file")
    parser.add_argument("--keep", type=Path, help="keep and reuse what was found with each kubectl in this folder")
    options: Any = parser.parse_args(arguments)
    kubectls = {".".join(map(str, version)): path for version, path in every_kubectl().items()}
    if options.kubectl:
        kubectls = {name: path for name, path in kubectls.items() if path in options.kubectl}
    if not kubectls:
        parser.error("no kubectl was found on PATH or in the folders that KUBECTLS names")
    if not options.containers:
        copy_nodes(list(every_kubectl().values())[-1], options.left, options.right)
    findings = [one for version, path in kubectls.items() for one in judge(version, path, options)]
    if options.write:
        write(findings, options.write)
    print("\n".join(["", *missed(findings), f"{percent(findings):.1f} % of {len(findings)} commands are the same"]))
    return int(bool(options.write and missed(findings)))


if __name__ == "__main__":
    raise SystemExit(main())
