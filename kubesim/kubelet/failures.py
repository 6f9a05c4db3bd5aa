"""Libraries in images (``libraries.yaml``), and the errors in their words that end programs for their GPUs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from kubesim import data
from kubesim.gpu.cuda import INVALID_DEVICE, UNKNOWN, UNNAMED
from kubesim.gpu.devices import UNAVAILABLE
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.kubelet.images import Image
from kubesim.kubelet.programs import Exit, Line, Output, Program

_texts: data.Reader[dict[str, str]] = data.beside(__file__, "failures.yaml")
_table = data.beside(__file__, "libraries.yaml")


@lru_cache(maxsize=256)
def _of(repository: str, tag: str) -> Mapping[str, str]:
    table = _table()
    found = dict(table["default"])
    for pattern, versions in (table["images"].get(repository) or {}).items():
        if fnmatchcase(tag, pattern):
            found |= versions
    release = tag.removeprefix("v").partition("-")[0]
    found = {name: str(value).replace("{tag}", release) for name, value in found.items()}
    found["packages"] = (
        table["packages"]
        .get(repository, table["packages"]["default"])
        .format(python=".".join(found["python"].split(".")[:2]))
    )
    return found


def libraries(image: Image) -> Mapping[str, str]:
    """Return what an image contains: ``python``, ``torch``, ``cuda``, ``cudnn``, ``nccl`` and what else it is for.

    ``packages`` is the folder that Python imports them from. Patterns of tags that stand later add to earlier ones.
    """
    return _of(image.origin.repository, image.origin.tag)


def packages(image: Image) -> list[str]:
    """Return the folders of the libraries that an image has; none for one that is not for machine learning."""
    if image.origin.repository not in _table()["images"]:
        return []
    own = libraries(image)
    names = [name for name in ("torch", "tensorflow", "keras", "numpy", "vllm") if own.get(name)]
    return [f"{own['packages']}/{name}" for name in (*names, "tqdm", "yaml", "requests", "psutil")]


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version that can be compared: (2, 7) of 2.7.0a0+7c8ec84dab."""
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isdecimal())


def nccl_of(image: Image) -> str:
    """Return the version of NCCL in an image as NCCL tells it: 2.25.1+cuda12.8."""
    own = libraries(image)
    return f"{own['nccl']}+cuda{'.'.join(own['cuda'].split('.')[:2])}"


def server_version(image: Image) -> str:
    """Return the version of an inference server: Triton has had a release every month since 2.42 in January 2024."""
    tag = image.origin.tag.removeprefix("v").partition("-")[0]
    if image.behaviour != "tritonserver":
        return libraries(image).get("vllm", tag)
    year, month = (int(part) if part.isdecimal() else 1 for part in f"{tag}.1".split(".")[:2])
    return f"2.{42 + (year - 24) * 12 + month - 1}.0"


KILLED_CODE = 1
BEGUN_S = 1.6
"""When a program has read its libraries and first asks for a device."""
MEMORY_AT_S = 7.5
"""When a program that wants too much has loaded so much that nothing is left."""
MIB_PER_GIB = 1024
CONTEXT_MIB, MAX_CACHED_MIB = 522, 1400
"""The memory of CUDA's context; the most that PyTorch has reserved and not used."""
TRIED_MIB = (256, 384, 512, 768, 1024, 1536, 2048, 2560)
"""The size of the tensor for which there is no room any more."""
CONTAINED, ECC, FIRST_WITH_CONTAINED = 226, 214, (12, 8)
"""The errors of an older CUDA release, by those of a newer one that tell a contained error."""
SHORT_NAME, ACCELERATOR, PER_PROCESS = (2, 5), (2, 8), (2, 1)
"""Since when PyTorch says torch.OutOfMemoryError and torch.AcceleratorError, and names all processes."""


@dataclass(frozen=True, slots=True)
class Library:
    """The libraries of a program that may fail: those of its image, its script, and what it is there for."""

    image: Image
    script: str = "/workspace/train.py"
    serves: bool = False

    def _text(self, key: str, **values: object) -> str:
        known = {"packages": libraries(self.image)["packages"], "script": self.script, **values}
        return _texts()[key].format(**known)

    def _last(self, key: str, error: str) -> str:
        """Return the text of an error that ends a program: its traceback, or what a server makes of it."""
        if not self.serves:
            return self._text(key, error=error)
        if self.image.behaviour != "inference":
            return f"ERROR: {error.splitlines()[0]}\n"
        old = release(libraries(self.image)["vllm"]) < (0, 8)
        where = self._text(f"engine-{key}" if key in ("cuda", "memory", "cache") else "engine-context")
        what = "EngineCore encountered a fatal error." if key == "cuda" else "EngineCore failed to start."
        return self._text("engine-0.6" if old else "engine", what=what, where=where, error=error.splitlines()[0])

    def _cuda(self, code: int) -> str:
        known = libraries(self.image)
        code = ECC if code == CONTAINED and release(known["cuda"]) < FIRST_WITH_CONTAINED else code
        kind = "torch.AcceleratorError" if release(known["torch"]) >= ACCELERATOR else "RuntimeError"
        return self._text("error", kind=kind, error=CUDA_ERRORS.get(code, UNNAMED))

    def cuda(self, code: int) -> str:
        """Return what is printed where an error of CUDA strikes in the middle of the work."""
        return self._last("cuda", self._cuda(code))

    def begin(self, code: int) -> str:
        """Return what is printed where CUDA refuses the first call or the first context."""
        if code in (UNAVAILABLE, INVALID_DEVICE, ECC):
            return self._last("context", self._cuda(code))
        key = "unknown" if code == UNKNOWN else "unexpected"
        return self._last("first", self._text(key, number=code, error=CUDA_ERRORS.get(code, UNNAMED)))

    def no_nccl(self) -> str:
        """Return what is printed where a job of several pods has no GPU for NCCL."""
        return self._text("no-nccl")

    def no_device(self, *, driver: bool) -> str:
        """Return what is printed by a server that cannot do without a GPU; ``driver``: its libraries are there."""
        if self.image.behaviour != "inference":
            return self._last("first", self._text("no-gpu" if driver else "no-driver"))
        if driver:
            return self._last("first", self._text("no-gpu"))
        old = release(libraries(self.image)["vllm"]) < (0, 8)
        return self._text("undetected-0.6" if old else "undetected")

    def no_cache(self) -> str:
        """Return what vLLM says where the weights of a model leave nothing for the cache of keys and values."""
        return self._last("cache", self._text("no-cache"))

    def crowded(self, total_mib: int, free_mib: int, share: float) -> str:
        """Return what vLLM says where other processes leave less of a device than the ``share`` that it wants."""
        total, free = total_mib / MIB_PER_GIB, free_mib / MIB_PER_GIB
        return self._last("context", self._text("crowded", total=total, free=free, share=share, wanted=total * share))

    def memory(self, total_mib: int, others: Sequence[tuple[int, int]], pid: int, seed: str) -> str:
        """Return what is printed where a device's memory does not suffice for process ``pid`` of the node.

        ``others``: number and MiB of the processes that hold memory on it, too.
        """
        noise = zlib.crc32(f"{seed}/{total_mib}".encode())
        held = sum(size for _, size in others)
        tried = TRIED_MIB[noise % len(TRIED_MIB)]
        free = min(tried * (20 + noise // 8 % 70) // 100, max(total_mib - held, 0) // 4)
        used = max(total_mib - held - free, 0)
        cached = min(40 + noise // 512 % MAX_CACHED_MIB, max(used - CONTEXT_MIB, 0) // 8)
        torch = release(libraries(self.image)["torch"])
        text = self._text(
            "memory-error" if torch > PER_PROCESS else "memory-error-2.0",
            kind="torch.OutOfMemoryError" if torch >= SHORT_NAME else "torch.cuda.OutOfMemoryError",
            tried=size(tried),
            total=size(total_mib),
            free=size(free),
            allocated=size(max(used - CONTEXT_MIB - cached, 0)),
            cached=size(cached),
            reserved=size(max(used - CONTEXT_MIB, 0)),
            processes="".join(
                f"Process {number} has {size(mib)} memory in use. " for number, mib in [*others, (pid, used)]
            ),
        )
        return self._last("memory", text)


def size(mib: float) -> str:
    """Return an amount of memory as PyTorch's allocator prints it."""
    return f"{mib / MIB_PER_GIB:.2f} GiB" if mib > MIB_PER_GIB else f"{mib:.2f} MiB"


def script_of(image: Image, argv: Sequence[str]) -> str:
    """Return the path of the script that a command line runs, as a traceback names it."""
    name = next((word for word in argv if word.endswith(".py")), "train.py")
    return name if name.startswith("/") else f"{image.workdir.rstrip('/')}/{name}"


def of(image: Image, argv: Sequence[str]) -> Library:
    """Return the libraries of the program that a command line starts."""
    return Library(image, script_of(image, argv), image.behaviour not in ("training", ""))


def cut(program: Program, at: float, text: str, code: int = KILLED_CODE, reason: str = "") -> Program:
    """Return a program that goes on until ``at`` seconds and then dies with a text on standard error.

    One that has ended before that ends as it did.
    """
    own = program.ending
    if own is not None and own.at <= at:
        return program
    last: list[Output] = [Line(at, line, "stderr") for line in text.splitlines()]

    def run(horizon: float, limit: int) -> list[Output]:
        before = [out for out in program.run(min(horizon, at), limit) if isinstance(out, Line) and out.at <= at]
        return [*before, *last, Exit(at + 0.1, code, reason)] if horizon >= at else [*before]

    return replace(program, run=lambda horizon, limit: iter(run(horizon, limit)))
