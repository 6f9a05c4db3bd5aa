"""Versions of the libraries that images for machine learning contain (``libraries.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.kubelet.images import Image

_FILE = Path(__file__).with_name("libraries.yaml")


@cache
def _table() -> dict[str, Any]:
    return dict(data.read(_FILE))


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
