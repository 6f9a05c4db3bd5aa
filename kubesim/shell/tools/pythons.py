"""python3 for the checks that people type: ``-c``, a script, standard input."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kubesim.kubelet import python, python_serving
from kubesim.kubelet.programs import FOREVER_S, OOM_REASON, Exit, Line
from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import Directory
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import resolve
from kubesim.shell.tools import kit

VERSION = "3.11.2"
MOST_STEPS = 10_000
LONGEST = 100_000
PACKAGES = ("/usr/local/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages")


NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
NOT_READY = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
    "that might have already set an error? Error 802: system not yet initialized"
)
WARNING = (
    "{}/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: {} (Triggered internally at "
    "../c10/cuda/CUDAFunctions.cpp:108.)\n  return torch._C._cuda_getDeviceCount() > 0\n"
)
"""What torch says beside its answer where devices are there that it cannot use."""
BY_NAME = ("socket.gethostbyname", "gethostbyname")


class _Answers(ast.NodeTransformer):
    """Puts in what the container's devices, names and environment would say; an error takes its statement's place."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers = answers
        self.error: tuple[str, str] | None = None

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace a known expression by its answer."""
        text = ast.unparse(node) if isinstance(node, ast.Call | ast.Attribute | ast.Subscript) else ""
        if text in self.answers:
            answer = self.answers[text]
            if not isinstance(answer, Failure):
                return ast.copy_location(ast.Constant(answer), node)  # type: ignore[arg-type]
            self.error = (answer.kind, answer.text)
        found: ast.AST = super().visit(node)
        if self.error and isinstance(node, ast.Expr | ast.Assign):
            (kind, text), self.error = self.error, None
            call = ast.Call(ast.parse(kind, mode="eval").body, [ast.Constant(text)], [])
            return ast.fix_missing_locations(ast.copy_location(ast.Raise(call), node))
        return found


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raises."""

    kind: str
    text: str


def _torch(process: Process) -> dict[str, object]:
    """Return what torch says of the container's devices."""
    access = process.machine.devices
    devices = access.view(process.machine.clock.now()).present() if access and access.has_driver else []
    usable, missing = access is not None and access.board.usable, Failure("RuntimeError", NO_DRIVER)
    if devices and not usable:
        devices, missing = [], Failure("RuntimeError", NOT_READY)
    names = [item.device.product.name for item in devices]
    able = [tuple(map(int, item.device.product.compute.split("."))) for item in devices]
    found: dict[str, object] = {
        "torch.cuda.is_available()": bool(names),
        "torch.cuda.device_count()": len(names),
        "torch.cuda.current_device()": 0 if names else missing,
        "torch.__version__": "2.5.1+cu124",
        "torch.version.cuda": "12.4",
        "torch.cuda.nccl.version()": (2, 21, 5),
        "torch.backends.cudnn.version()": 90100,
        "torch.distributed.is_available()": True,
        "torch.distributed.is_nccl_available()": True,
    }
    for name in ("get_device_name", "get_device_capability"):
        for at in range(max(len(names), 1)):
            answer: object = missing
            if names:
                answer = (names if name == "get_device_name" else able)[at]
            found[f"torch.cuda.{name}({at})"] = answer
        found[f"torch.cuda.{name}()"] = found[f"torch.cuda.{name}(0)"]
    return found


def _version(process: Process) -> str:
    """Return the version that the image has; official ones name it in the environment."""
    return process.env.get("PYTHON_VERSION", VERSION)


async def _known(process: Process, tree: ast.Module) -> dict[str, object]:
    """Return what the calls of a program answer that ask for names, the environment and the machine."""
    version = _version(process)
    found: dict[str, object] = {
        "socket.gethostname()": process.machine.hostname,
        "platform.node()": process.machine.hostname,
        "platform.machine()": "x86_64",
        "platform.python_version()": version,
        "os.getpid()": process.pid,
        "os.getcwd()": process.cwd,
        "os.cpu_count()": process.machine.cpus,
        "sys.version": f"{version} (main, Nov 30 2024, 22:22:12) [GCC 12.2.0]",
    }
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Call | ast.Subscript) else ""
        words = [each.value for each in getattr(node, "args", []) if isinstance(each, ast.Constant)]
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and text.startswith("os.environ[")
        ):
            key = str(node.slice.value)
            found[text] = process.env[key] if key in process.env else Failure("KeyError", repr(key))
        elif isinstance(node, ast.Call) and words and ast.unparse(node.func) in ("os.environ.get", "os.getenv"):
            found[text] = process.env.get(str(words[0]), words[1] if len(words) > 1 else None)
        elif isinstance(node, ast.Call) and words and ast.unparse(node.func) in BY_NAME:
            found[text] = await _address(process, str(words[0]))
    return found


async def _address(process: Process, name: str) -> str | Failure:
    try:
        return (await resolve(process, name))[0]
    except NetworkError as error:
        text = "[Errno -3] Temporary failure in name resolution"
        return Failure("socket.gaierror", text if error.kind == "again" else "[Errno -2] Name or service not known")


def _packages(process: Process) -> frozenset[str]:
    found: set[str] = set()
    for path in PACKAGES:
        node = process.view.find(path)
        if isinstance(node, Directory):
            found.update(node.names())
    return frozenset(found)


async def _answered(process: Process, text: str) -> str:
    """Return the program with what it asks filled in; one that cannot be parsed stays as it is."""
    try:
        tree = ast.parse(text)
        answers = await _known(process, tree)
        if "torch" in text:
            answers |= _torch(process)
        return ast.unparse(ast.fix_missing_locations(_Answers(answers).visit(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


async def python3(process: Process) -> int:
    """Run a small program."""
    words = process.argv[1:]
    if words[:1] in (["-V"], ["--version"]):
        await process.write(f"Python {_version(process)}\n")
        return 0
    while words and words[0] in ("-u", "-B", "-E", "-s", "-I", "-q"):
        words = words[1:]
    if words[:2] == ["-m", "http.server"]:
        told = "-u" in process.argv or bool(process.env.get("PYTHONUNBUFFERED")) or process.tty(1) is not None
        version = _version(process)
        return await python_serving.http_server(process, words[2:], version, told=told)
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
    access = process.machine.devices
    if "cuda.is_available()" in text and access is not None and access.has_driver and not access.board.usable:
        await process.error(WARNING.format(PACKAGES[0], NOT_READY))
    answered, limit = await _answered(process, text), process.machine.memory_limit or process.machine.memory
    run = python.script(answered, _packages(process), process.env, unbuffered=True, memory=limit)
    for out in run(FOREVER_S, MOST_STEPS):
        await process.tick(8)
        wait = out.at - (process.machine.now() - started)
        if wait > 0.5:
            await process.sleep(wait)
        if isinstance(out, Exit):
            if out.reason == OOM_REASON:
                await process.outgrow()
            return out.code
        if isinstance(out, Line) and out.stream == "stderr":
            await process.error(out.text + "\n")
        else:
            await process.write(out.text + "\n")
    return 0


TOOLS: dict[str, Tool] = {"python3": python3, "python": python3}
