"""Plays scenes in the emulated shell, whose kubectl is compared with a real one on the same cluster.

``python -m kubesim.tests.contract.emulated [--scene NAME] [--kubectl PATH]`` prints every difference;
``--record FILE`` writes what the real one prints, so that tests need none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubesim.network.door import Door, PodKube
from kubesim.shell.files import Directory, File, Node
from kubesim.shell.machine import Machine, Stdio
from kubesim.shell.spawn import spawn
from kubesim.tests import quick, shell_world
from kubesim.tests.contract.normalise import normalise
from kubesim.tests.contract.tools import every_kubectl
from kubesim.tests.contract.transcripts import Answer, Command, Runner, Scene, Verdict, load
from kubesim.tests.live import Live, serving, serving_here

SCENES = Path(__file__).parents[1] / "kubectl_scenes.yaml"
RECORDED = Path(__file__).parents[1] / "kubectl_answers.json"
SECONDS = 60.0
FOLDER = shell_world.FOLDER
REAL = "/tmp/transcripts-x/right/"
"""A folder as the real one has, which no comparison sees."""


class Emulated:
    """Plays scenes in a toolbox container of one cluster, with the administrator's rights."""

    def __init__(self, live: Live, files: dict[str, str]) -> None:
        self._files = files
        self._door = Door(live.url, live.authority.pem)
        self._token = live.token
        self.machine: Machine = shell_world.machine("toolbox")
        self._node = ""

    async def play(self, scene: Scene, namespace: str) -> list[Answer]:
        """Run a scene in a fresh namespace and return the answers to what is compared."""
        self.machine = shell_world.machine("toolbox")
        self.machine.kube = PodKube(self._door, "default", lambda: self._token)
        found = (await self._call(Command("get nodes -o name")))[1]
        self._node = found.partition("\n")[0].removeprefix("node/")
        for name, text in self._files.items():
            self.put(name, text.replace("{namespace}", namespace))
        await self._call(Command(f"create namespace {namespace}"))
        self.machine.kube = PodKube(self._door, namespace, lambda: self._token)
        await self._call(Command("wait --for=create serviceaccount/default --timeout=10s"))
        try:
            answers = [await self._answer(command, namespace) for command in scene.commands]
        finally:
            await self._call(Command(f"delete namespace {namespace} --wait=false"))
        return [answer for answer in answers if not answer.command.quiet]

    def put(self, name: str, text: str, mode: int = 0o644) -> None:
        """Lay a file into the folder that commands run in."""
        folder: Any = self.machine.files.walk(FOLDER).node
        below, slash, name = name.rpartition("/")
        if slash and folder.get(below) is None:
            folder.put(below, Directory())
        made: Node = File(data=text.encode(), mode=mode)
        (folder.get(below) if slash else folder).put(name, made)

    async def _answer(self, command: Command, namespace: str) -> Answer:
        line = command.line.replace("{namespace}", namespace).replace("{node}", self._node)
        if command.save:
            line = f"get {line} -o yaml"
        status, output = await self._call(command, line)
        if command.save:
            self.put("saved.yaml", output)
        return Answer(command, status, normalise(output.replace(f"{FOLDER}/", REAL), namespace))

    async def _call(self, command: Command, line: str = "") -> tuple[int, str]:
        env = {"HOME": "/root", "TZ": "UTC"}
        if command.editor:
            self.put("editor", f'#!/bin/sh\nsed -i {shlex.quote(command.editor)} "$1"\n', 0o755)
            env["EDITOR"] = f"{FOLDER}/editor"
        out, err = shell_world.Screen(), shell_world.Screen()
        stdio = Stdio(_Text(command.stdin), out, err)
        argv = ["kubectl", *shlex.split(line or command.line)]
        process = spawn(self.machine, argv, cwd=FOLDER, env=env, stdio=stdio)
        try:
            status = await asyncio.wait_for(process.wait(), SECONDS)
        except TimeoutError:
            process.signal("KILL")
            return 124, f"still running after {SECONDS} s\n"
        return status, out.text + err.text

    async def close(self) -> None:
        """Let go of the cluster."""
        self.machine.stop()
        await self._door.close()


class _Text:
    """What is piped in."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()

    async def read(self, count: int) -> bytes:
        data, self._data = self._data, b""
        return data


def real_answers(kubectl: str, live: Live, folder: Path, files: dict[str, str], scene: Scene) -> list[Answer]:
    """Return what a real kubectl prints in a scene."""
    folder.mkdir(exist_ok=True)
    return Runner(kubectl, live.kubeconfig, folder, files).play(scene, f"{scene.name}-real")


def emulated_answers(files: dict[str, str], scene: Scene, folder: Path) -> list[Answer]:
    """Return what the shell's kubectl prints in a scene, on a cluster of its own that waits for nothing."""

    async def play() -> list[Answer]:
        async with serving_here(folder, nodes=2) as live:
            player = Emulated(live, files)
            try:
                return await player.play(scene, f"{scene.name}-ours")
            finally:
                await player.close()

    return quick.run(play())


def kept(file: Path) -> dict[str, list[list[Any]]]:
    """Return the answers that a file keeps, by scene."""
    return json.loads(file.read_text()) if file.exists() else {}


def record(kubectl: str, script: Path, names: list[str], file: Path) -> None:
    """Write down what a real kubectl prints in the named scenes, all where none is named."""
    files, scenes = load(script)
    for scene in scenes:
        if not names or scene.name in names:
            with tempfile.TemporaryDirectory(prefix="transcripts-") as parent, serving(Path(parent), nodes=2) as live:
                answers = real_answers(kubectl, live, Path(parent, "right"), files, scene)
            lines = [[answer.command.line, answer.status, answer.output] for answer in answers]
            file.write_text(json.dumps({**kept(file), scene.name: lines}, indent=0))


def compared(script: Path, names: list[str], file: Path) -> Iterator[Verdict]:
    """Play the scenes that have been recorded, each on a cluster of its own."""
    files, scenes = load(script)
    known = kept(file)
    for scene in scenes:
        if scene.name not in known or names and scene.name not in names:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="transcripts-") as parent:
            answers = emulated_answers(files, scene, Path(parent))
        print(f"=== {scene.name}: {time.monotonic() - began:.1f} s", flush=True)
        recorded = iter(known[scene.name])
        for left in answers:
            found = next((entry for entry in recorded if entry[0] == left.command.line), None)
            if found is None:
                return  # what was typed has changed since it was recorded
            yield Verdict(scene.name, left, Answer(left.command, found[1], found[2]))


def main(arguments: list[str] | None = None) -> int:
    """Print every difference."""
    parser = argparse.ArgumentParser(description="Compare the emulated shell's kubectl with a real one.")
    parser.add_argument("--kubectl", default="")
    parser.add_argument("--scene", action="append", default=[])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--script", type=Path, default=SCENES)
    parser.add_argument("--answers", type=Path, default=RECORDED)
    options = parser.parse_args(arguments)
    if options.record:
        record(options.kubectl or [*every_kubectl().values()][-1], options.script, options.scene, options.answers)
        return 0
    same = total = 0
    for verdict in compared(options.script, options.scene, options.answers):
        total += 1
        same += verdict.same
        if not verdict.same:
            print(f"### {verdict.scene}: kubectl {verdict.left.command.line}\n{verdict.diff()}\n", flush=True)
    print(f"{same} of {total} the same")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
