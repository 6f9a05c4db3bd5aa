"""GPU memory that a command line asks for, as far as its words and its environment tell.

Rules of thumb of the trade: two bytes for each parameter to serve a model, sixteen to train it with Adam; a batch
costs in proportion. What says nothing asks for no more than there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MIB_PER_GIB = 1024
SERVING_BYTES, TRAINING_BYTES, ADAPTER_BYTES = 2.0, 16.0, 2.2
OVERHEAD_GIB, BASE_GIB, GIB_PER_SAMPLE = 2.0, 6.0, 0.35
_MEMORY = re.compile(
    r"(?:^|[-_ ])(?:gpu[-_])?mem(?:ory)?(?:[-_](?:gb|gib|size|limit))*[= ](\d+(?:\.\d+)?) ?(?:gi?b?)?$", re.I
)
_BATCH = re.compile(r"(?:^|[-_])batch[-_]size[= ](\d+)$", re.I)
_MODEL = re.compile(
    r"(?:^|[-_ ])model(?:[-_](?:name|id|path|name[-_]or[-_]path))?[= ].*?(\d+(?:\.\d+)?)b(?![a-z0-9])", re.I
)
_PARALLEL = re.compile(r"(?:tensor[-_]parallel[-_]size|\btp|nproc[-_]per[-_]node)[= ](\d+)$", re.I)
_SHARDED = re.compile(r"fsdp|deepspeed|zero[-_]?[123]", re.I)
_ADAPTER = re.compile(r"\bq?lora\b|peft", re.I)
_WEIGHTS = ((re.compile(r"awq|gptq|int4|4bit|q4", re.I), 0.25), (re.compile(r"fp8|int8|8bit|w8a8", re.I), 0.5))
_CPU = re.compile(
    r"(?:^|[-_ ])device[= ]cpu$|^(?:force|use)[-_]cpu=(?:1|true|yes)$|^--(?:cpu|no-cuda|no_cuda|use_cpu)$", re.I
)
DEFAULT_BATCH = 64
DEFAULT_BILLIONS, USED_SHARE, ACTIVATIONS_GIB = 0.6, 0.9, 1.4
"""The model that vLLM serves where nobody names one; the share of a device that it uses; what running it takes."""


def on_cpu(argv: Iterable[str], env: Mapping[str, str]) -> bool:
    """Tell whether a program is told by its own options to leave the GPUs alone."""
    return any(map(_CPU.search, _said(argv, env)))


def batch_size(argv: Iterable[str], env: Mapping[str, str]) -> int:
    """Return how many samples each step of a training takes of each GPU."""
    return max(int(_greatest(_BATCH, _said(argv, env)) or DEFAULT_BATCH), 1)


def model_gib(argv: Iterable[str], env: Mapping[str, str]) -> float:
    """Return the GiB of one device that the weights of a served model take."""
    said = [*_said(argv, env)]
    billions = _greatest(_MODEL, said) or DEFAULT_BILLIONS
    share = next((factor for pattern, factor in _WEIGHTS if pattern.search(" ".join(said))), 1.0)
    return billions * SERVING_BYTES * share * 1e9 / 2**30 / max(_greatest(_PARALLEL, said) or 1, 1)


def kv_cache(weights_gib: float, total_gib: float) -> float:
    """Return the GiB that vLLM has for its cache of keys and values beside the weights."""
    return max(total_gib * USED_SHARE - weights_gib - ACTIVATIONS_GIB, 0.0)


def wanted_mib(argv: Iterable[str], env: Mapping[str, str], devices: int, *, training: bool) -> int:
    """Return the MiB that a program wants of each of its ``devices``; 0 where nothing tells."""
    said = [*_said(argv, env)]
    if (asked := _greatest(_MEMORY, said)) is not None:
        return int(asked * MIB_PER_GIB)
    text = " ".join(said)
    billions, batch = _greatest(_MODEL, said), _greatest(_BATCH, said)
    if billions is None:
        return int((BASE_GIB + batch * GIB_PER_SAMPLE) * MIB_PER_GIB) if batch is not None and training else 0
    share = next((factor for pattern, factor in _WEIGHTS if pattern.search(text)), 1.0)
    each = SERVING_BYTES * share
    if training:
        each = ADAPTER_BYTES * share if _ADAPTER.search(text) else TRAINING_BYTES
    spread = int(_greatest(_PARALLEL, said) or 1) if not training else devices if _SHARDED.search(text) else 1
    return int((billions * each * 1e9 / 2**30 / max(spread, 1) + OVERHEAD_GIB) * MIB_PER_GIB)


def _said(argv: Iterable[str], env: Mapping[str, str]) -> Iterable[str]:
    """Yield settings: ``--name=value``, an option with the word after it, a variable with its value."""
    words = [word for text in argv for word in text.split()]
    for word, after in zip(words, [*words[1:], ""], strict=True):
        yield word
        if word.startswith("-") and "=" not in word and after and not after.startswith("-"):
            yield f"{word} {after}"
    yield from (f"{name}={value}" for name, value in env.items())


def _greatest(pattern: re.Pattern[str], said: Iterable[str]) -> float | None:
    return max((float(match[1]) for match in map(pattern.search, said) if match), default=None)
