"""python3 for the checks that people type: ``-c``, a script, standard input."""

from __future__ import annotations

import ast

from kubesim.kubelet import python
from kubesim.kubelet.programs import FOREVER_S, Exit, Line
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

VERSION = "3.11.2"
MOST_STEPS = 10_000
LONGEST = 100_000
PACKAGES = ("/usr/local/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages")


class _Devices(ast.NodeTransformer):
    """Puts in what torch.cuda would say of the container's devices."""

    def __init__(self, count: int) -> None:
        self.answers: dict[str, object] = {
            "torch.cuda.is_available()": count > 0,
            "torch.cuda.device_count()": count,
            "torch.__version__": "2.5.1+cu124",
            "torch.version.cuda": "12.4",
        }

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace a known expression by its answer."""
        if (
            isinstance(node, ast.Call | ast.Attribute)
            and len(text := ast.unparse(node)) < 40
            and text in self.answers
        ):
            return ast.copy_location(ast.Constant(self.answers[text]), node)  # type: ignore[arg-type]
        found: ast.AST = super().visit(node)
        return found


def _packages(process: Process) -> frozenset[str]:
    found: set[str] = set()
    for path in PACKAGES:
        node = process.view.find(path)
        if isinstance(node, Directory):
            found.update(node.names())
    return frozenset(found)


def _answered(process: Process, text: str) -> str:
    """Return the program with what it asks of devices filled in; one that cannot be parsed stays as it is."""
    if "torch" not in text:
        return text
    access = process.machine.devices
    count = len(access.board.visible(access.owner)) if access and access.has_driver else 0
    try:
        return ast.unparse(_Devices(count).visit(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


async def python3(process: Process) -> int:
    """Run a small program."""
    words = process.argv[1:]
    if words[:1] in (["-V"], ["--version"]):
        await process.write(f"Python {VERSION}\n")
        return 0
    while words and words[0] in ("-u", "-B", "-E", "-s", "-I", "-q"):
        words = words[1:]
    if words[:1] == ["-m"]:
        name = words[1] if len(words) > 1 else ""
        await process.error(f"/usr/bin/python3: No module named {name}\n")
        return 1
    if words[:1] == ["-c"] and len(words) > 1:
        text = words[1]
    elif words and words[0] != "-":
        try:
            text = kit.text(process.view.read(words[0]))
        except FileError as error:
            await process.error(
                f"python3: can't open file '{process.cwd.rstrip('/')}/{words[0]}': [Errno 2] {error.text}\n"
            )
            return 2
    else:
        text = kit.text(await kit.everything(process, process.fds[0], LONGEST))
    return await _run(process, text[:LONGEST])


async def _run(process: Process, text: str) -> int:
    started = process.machine.now()
    run = python.script(_answered(process, text), _packages(process), process.env, unbuffered=True)
    for out in run(FOREVER_S, MOST_STEPS):
        await process.tick(8)
        wait = out.at - (process.machine.now() - started)
        if wait > 0.5:
            await process.sleep(wait)
        if isinstance(out, Exit):
            return out.code
        if isinstance(out, Line) and out.stream == "stderr":
            await process.error(out.text + "\n")
        else:
            await process.write(out.text + "\n")
    return 0


TOOLS: dict[str, Tool] = {"python3": python3, "python": python3}
