"""The versions of the image's build."""

from machine import start

USUAL = {"torch": "2.5.1+cu124", "cuda": "12.4.1", "cudnn": "9.1.0", "nccl": "2.21.5"}
"""Those of an image of which nothing is known but that it has the package."""
debug, hip = False, None


def numbers(library):
    """Return the version of a library of the image as numbers."""
    known = start.get("libraries", {}).get(library) or USUAL[library]
    return tuple(int(each) for each in known.split("+")[0].split(".") if each.isdecimal())


def __getattr__(name):
    if name == "__version__":
        return start.get("libraries", {}).get("torch") or USUAL["torch"]
    if name == "cuda":
        return ".".join(map(str, numbers("cuda")[:2]))
    raise AttributeError(f"module 'torch.version' has no attribute {name!r}")
