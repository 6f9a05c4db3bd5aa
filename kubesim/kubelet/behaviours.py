"""From an image and a command line to the program that seems to run."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from heapq import merge
from typing import Any

from kubesim import data
from kubesim.gpu.access import Found
from kubesim.gpu.collectives import LAUNCHERS, is_launcher, membership, processes, script_at
from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, INVALID_DEVICE
from kubesim.gpu.demand import batch_size, kv_cache, model_gib, on_cpu
from kubesim.kubelet import failures
from kubesim.kubelet.environment import LONGEST_WORD, expand
from kubesim.kubelet.failures import libraries, release
from kubesim.kubelet.images import Image
from kubesim.kubelet.programs import FOREVER_S, Exit, Line, Output, Program, fixed
from kubesim.shell.tools import TOOLS

_table = data.beside(__file__, "behaviours.yaml")
EXEC_FORMAT_CODE = 255
START_ERROR_CODE = 128
OCI_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: exec: {cause}: unknown"
)
INTERPRETED = frozenset({"nnp", "sysctl"})
SERVERS = frozenset(
    {
        "torchrun", "vllm", "tritonserver", "text-generation-launcher", "nginx", "redis-server",
        "pause", "httpd", "httpd-foreground", "dcgm-exporter", "kube-state-metrics", "prometheus",
        "nvidia-device-plugin", "gpu-feature-discovery", "gpu-operator", "metrics-server", "coredns", "kube-proxy",
        "nvidia-ctk-installer", "nvidia-validator",
        "agnhost",
    }
)  # fmt: skip
"""Programs that go on as their image's behaviour says."""
NOTHING = Found()
SAMPLES, LOGGED_STEPS = 1281167, 100
"""The samples of the data set; the steps between two lines of a training's log."""
GPU_SERVERS = frozenset({"inference", "tritonserver", "text-generation-launcher"})
NO_DEVICE_AT_S, NO_CACHE_AT_S = 4.9, 14.5
"""Seconds until an inference server finds that it has no GPU, and that its model leaves no room on it."""
FIRST_WITH_BFLOAT16 = 8.0
"""The compute capability since which GPUs have bfloat16, and FlashAttention runs."""
MODEL_LENGTH, BYTES_PER_TOKEN = 8192, 131072
H100_RATE, CORE_RATE, MAX_CORES = 2507.0, 6.1, 7.9
"""Samples per second of training on an H100, and on one core of a processor; so many cores it keeps busy."""
SCRIPT = "train.py"
"""The program that images for training have where they start."""
_SCRIPTS = re.compile(r"(?:^|[\s\"'=])([\w./-]*\w\.py)\b")
DEFAULTS = {"world": 1, "pace": H100_RATE, "rate": H100_RATE, "speed": 1.0, "batch": 64, "batches": 20019}
"""Devices in the lines of a program to which nobody has told its own."""


@lru_cache(maxsize=1024)
def program(
    image: Image,
    argv: tuple[str, ...],
    env: tuple[tuple[str, str], ...],
    architecture: str,
    *,
    seed: str,
    found: Found = NOTHING,
) -> Program:
    """Return what ``argv`` does in ``image`` on a node of ``architecture``; ``seed`` varies the numbers it prints.

    ``found``: the GPUs that it has found.
    """
    if not argv:
        return Program(fixed(), start_error="no command specified")
    path = _path(image, argv[0])
    if path is None:
        return Program(fixed(), start_error=OCI_ERROR.format(cause=_not_found(argv[0])))
    if image.platform.split("/")[1] != architecture:
        line = Line(0.005, f"exec {path}: exec format error", "stderr")
        return Program(fixed(line, Exit(0.008, EXEC_FORMAT_CODE)))
    if any(len(word.encode()) >= LONGEST_WORD for word in argv):
        line = Line(0.005, f"exec {path}: argument list too long", "stderr")
        return Program(fixed(line, Exit(0.008, EXEC_FORMAT_CODE)))
    return _native(image, argv, env, seed, found)


def stand_in(seed: str, *, ends: bool) -> Program:
    """Return what a program of which nothing is known does: it goes on in silence, or ends well at once."""
    return Program(fixed(Exit(0.05, 0))) if ends else workload("silent", seed)


def command_line(container: dict[str, Any], image: Image, env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return argv of a container: its command and args over the image's, with $(NAME) filled in from its env."""
    command = tuple(container.get("command") or ())
    args = tuple(container.get("args") or ())
    if not command and args and args[0].startswith("-"):
        args = image.before_options + args
    words = command + args if command else image.entrypoint + (args or image.cmd)
    known = dict(env)
    return tuple(expand(word, known) for word in words) if known else words


def folder(image: Image, container: dict[str, Any]) -> str:
    """Return where a container's programs start."""
    return posixpath.normpath("/" + (container.get("workingDir") or image.workdir).lstrip("/"))


def scripts(image: Image, argv: Sequence[str], folder: str) -> dict[str, str]:
    """Return the scripts that an image is taken to have, by path: its own, and those that a command names.

    ``folder`` is where the container starts.
    """
    text = _table().get(image.behaviour, {}).get("script", "") if image.scripts else ""
    named = _SCRIPTS.findall(" ".join(argv)) if image.scripts else []
    places = [posixpath.join(folder, name) for name in named] + [posixpath.join(image.workdir, SCRIPT)] * bool(text)
    return {posixpath.normpath(path): text for path in places}


def interpreted(
    image: Image, argv: tuple[str, ...], architecture: str, mounted: Sequence[str] = (), folder: str = "/"
) -> bool:
    """Tell whether the emulated shell runs a command; what is known is computed, and what cannot start is refused.

    ``mounted`` are the paths of the container's volumes: a script in one of them is whatever somebody wrote there.
    """
    if (
        image.stands_in
        or not argv
        or image.platform.split("/")[1] != architecture
        or any(len(w.encode()) >= LONGEST_WORD for w in argv)
    ):
        return False
    name = argv[0].rpartition("/")[2]
    if name in INTERPRETED or name in TOOLS.added or {posixpath.join(folder, word) for word in argv} & {*image.files}:
        return True
    if _is_written(image, argv, mounted, folder):
        return True
    known = _is_server(image, name) or name.startswith("python") or name == "pause" or name.endswith(".sh")
    known = known or (name == "sleep" and len(argv) == 2 and argv[1].isdecimal())
    if known and _path(image, argv[0]) is not None or name == "tail" and "-f" in argv:
        return False
    return name in TOOLS or ("/" in argv[0] and _path(image, argv[0]) is None)


def _is_written(image: Image, argv: tuple[str, ...], mounted: Sequence[str], folder: str) -> bool:
    """Tell whether a command is Python or torchrun on what somebody has given: words, a module, a volume's script."""
    words = [word for word in argv[1:] if word not in ("-u", "-B", "-O")]
    launches, python = is_launcher(argv), argv[0].rpartition("/")[2].startswith("python")
    if not (launches or python) or _path(image, argv[0]) is None or launches and not words:
        return False
    if not launches and not (image.scripts and words and words[0][0] != "-"):
        return not plays_module(image, words)
    script = (*argv, "")[script_at(argv)] if launches else words[0]
    path = posixpath.normpath(posixpath.join(folder, script))
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in mounted)


def plays_module(image: Image, words: Sequence[str]) -> bool:
    """Tell whether ``python -m`` starts what the image is for; ``words`` begin behind ``python``."""
    name = words[1] if words[:1] == ["-m"] and len(words) > 1 else ""
    return image.scripts and (
        name in LAUNCHERS if image.behaviour == "training" else name.split(".")[0] in ("vllm", "dynamo")
    )


def _is_server(image: Image, name: str) -> bool:
    """Whether a program goes on as a behaviour says: that of its image, or of the same name."""
    return name in SERVERS or (name == image.behaviour and name in _table()) or name == image.program != ""


def environment(container: dict[str, Any], pod: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the environment of a container: literal values, and fields of its pod."""
    return tuple((item["name"], item.get("value") or _field(item, pod)) for item in container.get("env") or ())


def _field(item: dict[str, Any], pod: dict[str, Any]) -> str:
    """Return the field of a pod that a variable names, as ``metadata.name`` or ``metadata.labels['app']``."""
    path = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
    whole, _, key = path.partition("['")
    value: Any = pod
    for part in whole.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if key and isinstance(value, dict):
        value = value.get(key.removesuffix("']"))
    return value if isinstance(value, str) else ""


def _path(image: Image, word: str) -> str | None:
    if "/" not in word:
        return image.programs.get(word)
    folder, _, name = word.rpartition("/")
    known = image.programs.get(name)
    if known is not None and (known == word or folder in ("/bin", "/usr/bin", "/usr/local/bin")):
        return word
    return word if image.scripts else None


def _not_found(word: str) -> str:
    if "/" in word:
        return f'"{word}": stat {word}: no such file or directory'
    return f'"{word}": executable file not found in $PATH'


def _native(
    image: Image, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], seed: str, found: Found
) -> Program:
    """Return what a known program does; one that is only known to be there ends at once."""
    return _known(image, argv, env, seed, found) or Program(fixed(Exit(0.01, 0)))


def _known(
    image: Image, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], seed: str, found: Found
) -> Program | None:
    name = argv[0].rpartition("/")[2]
    if name.startswith("python"):
        return _work(image, argv, env, seed, found)
    if _is_server(image, name) or name.endswith(".sh"):
        return _work(image, argv, env, seed, found, "server")
    if name == "tail" and "-f" in argv:
        return Program(fixed())
    if name == "sleep" and len(argv) == 2 and argv[1].isdecimal():
        return Program(fixed(Exit(float(argv[1]), 0)))
    return None


def _work(
    image: Image, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], seed: str, found: Found, fallback: str = ""
) -> Program:
    """Return the work that an image is for, as its command line, its environment and its devices want it."""
    variables, name = dict(env), argv[0].rpartition("/")[2]
    if name == image.program:
        return described(image, seed)
    if name in _table() and image.behaviour != name:
        return workload(name, seed)
    if image.behaviour == "training":
        return _training(image, argv, variables, seed, found)
    if image.behaviour in GPU_SERVERS:
        return _server(image, argv, variables, seed, found)
    return workload(image.behaviour or fallback, seed, world=processes(argv, variables))


def _training(image: Image, argv: tuple[str, ...], variables: dict[str, str], seed: str, found: Found) -> Program:
    """Return what a training script does: with the GPUs that it has found, on the CPU without one, or fail."""
    own, libs = libraries(image), failures.of(image, argv)
    if argv[0].rpartition("/")[2] == "mpirun":  # its ranks compute elsewhere
        return workload("training", seed, torch=own["torch"])
    several, seen = membership(argv, variables), len(found.names)
    world, local = processes(argv, variables, max(seen, 1)), variables.get("LOCAL_RANK", "")
    pace, batch = H100_RATE * found.speed, batch_size(argv, variables)
    used = 1 if local else seen
    values: dict[str, Any] = {"torch": own["torch"], "pace": pace, "rate": pace * used}
    values |= {"world": world * (several.size if several else 1), "batch": batch, "batches": -(-SAMPLES // batch)}
    cpu = on_cpu(argv, variables)
    if cpu or (found.absent and not several):
        rate = CORE_RATE * min(found.cores or MAX_CORES, MAX_CORES)
        return workload("training-cpu", seed, **{**values, "pace": rate, "rate": rate})
    if found.absent:
        return failures.cut(workload("rank", seed, **values), failures.BEGUN_S, libs.no_nccl())
    error = found.error or (INVALID_DEVICE if max(world - 1, int(local) if local.isdecimal() else 0) >= seen else 0)
    if error:
        begun = workload("rank" if several else "training", seed, **values)
        return failures.cut(begun, failures.BEGUN_S + found.after_s, libs.begin(error))
    if several:
        return workload("rank", seed, **values)
    return workload("training", seed, **values)


def _server(image: Image, argv: tuple[str, ...], variables: dict[str, str], seed: str, found: Found) -> Program:
    """Return what an inference server does with the GPUs that it has found."""
    own, libs = libraries(image), failures.of(image, argv)
    name, old = image.behaviour, image.behaviour == "inference" and release(own["vllm"]) < (0, 8)
    if image.behaviour == "tritonserver" and found.absent:
        return workload("tritonserver-cpu", seed)
    values = {**own, "speed": found.speed, **_model(argv, variables, found)}
    begun = workload(f"{name}-0.6" if old else name, seed, **values)
    if found.absent:
        undetected = name == "inference" and found.error == INSUFFICIENT_DRIVER
        begun = workload(f"{name}-none", seed, **values) if undetected else begun
        return failures.cut(begun, NO_DEVICE_AT_S, libs.no_device(driver=found.error != INSUFFICIENT_DRIVER))
    if found.error:
        return failures.cut(begun, failures.BEGUN_S + found.after_s, libs.begin(found.error))
    if name == "inference" and not values["kv"]:
        return failures.cut(begun, NO_CACHE_AT_S, libs.no_cache())
    return begun


def _model(argv: tuple[str, ...], variables: dict[str, str], found: Found) -> dict[str, Any]:
    """Return how large the weights of a served model are, and how much room they leave on a GPU."""
    weights = model_gib(argv, variables)
    free = kv_cache(weights, found.mib[0] / 1024) if found.mib else 0.0
    tokens = int(free * 2**30 / BYTES_PER_TOKEN) // 16 * 16
    sizes = {"weights": weights, "free": free, "kv": tokens, "blocks": tokens // 16, "users": tokens / MODEL_LENGTH}
    wide = found.compute >= FIRST_WITH_BFLOAT16
    return {
        **sizes,
        "dtype": "bfloat16" if wide else "float16",
        "attention": "Flash Attention" if wide else "FlexAttention",
    }


def workload(name: str, seed: str, *, first: int = 0, **values: Any) -> Program:
    """Return a long-running program of ``behaviours.yaml``.

    ``first`` is the number that its repeated line begins with, after which nothing is printed that comes but once;
    ``values`` are what its lines tell of.
    """
    entry = _table()[name or "silent"]
    lines = sorted(entry["lines"], key=lambda each: each.get("at", FOREVER_S))
    known = {**DEFAULTS, **values}

    def run(horizon: float, limit: int) -> Iterator[Output]:
        repeated = None
        for each in lines:
            if "at" not in each:
                repeated = each
            elif each["at"] <= horizon and not first:
                yield Line(each["at"], each["text"].format(**known))
        if repeated is not None:
            yield from _repeat(repeated, horizon, limit, seed, first, known)
        if "ends" in entry:
            yield Exit(*entry["ends"])

    return Program(run, term_code=entry.get("term"), load=entry.get("load", name), stamped=True, values=known)


def described(image: Image, seed: str) -> Program:
    """Return the program of a cluster's own image, whose course its cluster has described."""
    own = image.own
    end = own.get("exit")

    def run(horizon: float, limit: int) -> Iterator[Output]:
        until = min(horizon, end["at"]) if end else horizon
        every = [each for each in own["log"] if "every" in each]
        repeated = (_repeat(each, until, limit // len(every), seed, 0, DEFAULTS) for each in every)
        named = ({"from": each["at"], "every": 1, **each} for each in own["log"] if "at" in each)
        once = (_repeat(each, until, 1, seed, 0, DEFAULTS) for each in named)
        yield from merge(*once, *repeated, key=lambda out: out.at)
        if end:
            yield Exit(end["at"], end["code"])

    return Program(run, term_code=own.get("term"), load=own.get("load", {}).get("gpu", ""), stamped=True)


def following(program: Program, course: Sequence[tuple[float, str]], seed: str) -> Program:
    """Return a program that goes on with behaviours, each from so many seconds after its start on."""
    ends = [*(at for at, _ in course), FOREVER_S * 100]
    parts, told = [(0.0, program)], dict[str, int]()
    for (begins, name), end in zip(course, ends[1:], strict=True):
        parts.append((begins, workload(name, seed, first=told.get(name, 0), **program.values)))
        told[name] = told.get(name, 0) + _repeats(name, end - begins, program.values)

    def run(horizon: float, limit: int) -> Iterator[Output]:
        for (begins, part), end in zip(parts, ends, strict=True):
            for out in part.run(min(horizon, end) - begins, limit) if begins <= horizon else ():
                if begins + out.at < end:
                    yield replace(out, at=begins + out.at)

    return replace(program, run=run)


def _repeat(
    entry: dict[str, Any], horizon: float, limit: int, seed: str, first: int, known: Mapping[str, Any]
) -> Iterator[Output]:
    (begins, every), text = _times(entry, known), entry["text"]
    own, other = _noise(f"{seed}/floor"), _noise(f"{seed}/speed")
    for n in range(limit):
        at = begins + n * every
        if at > horizon:
            return
        values = _values(first + n, _noise(f"{seed}/{first + n}"), own, other, known)
        yield Line(at, text.format_map(values), entry.get("stream", "stdout"))


def _times(entry: dict[str, Any], known: Mapping[str, Any]) -> tuple[float, float]:
    """Return when a line comes first and how often: every so many seconds, or as often as the work gets on."""
    if "every" in entry:
        return entry.get("from", 0), entry["every"]
    every = LOGGED_STEPS * known["batch"] / max(known["pace"], 0.1)
    return entry["from"] + every, every


def _repeats(name: str, seconds: float, known: Mapping[str, Any]) -> int:
    """Return how often a behaviour's repeated line comes in some seconds."""
    repeated = [_times(entry, {**DEFAULTS, **known}) for entry in _table()[name]["lines"] if "at" not in entry]
    return sum(max(math.ceil((seconds - begins) / every), 0) for begins, every in repeated)


def _noise(seed: str) -> float:
    """Return a number from 0 to 1; a checksum would do, were those of consecutive numbers not alike."""
    return int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) / 2**32


def _values(n: int, noise: float, own: float, other: float, known: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of the ``n``-th repetition; ``own`` and ``other`` are the job's, so no two are alike."""
    falls = math.exp(-n / (150 + 300 * other))
    return {
        "n": n,
        "step": (n + 1) * LOGGED_STEPS,
        "loss": 0.17 + 0.09 * own + (1.9 + 0.5 * other) * falls + (0.02 + 0.1 * falls) * (noise - 0.5),
        "rate": known["rate"] * (0.985 + 0.03 * noise),
        "tokens": known["speed"] * (180 + 40 * noise) * (0.85 + 0.3 * own),
        "prompt": known["speed"] * (410 + 900 * (noise * 7 % 1)) * (0.85 + 0.3 * own),
        "requests": 1 + int(noise * 6),
        "cache": 0.4 * (1 + int(noise * 6)) + noise * 3 % 0.4,
    }
