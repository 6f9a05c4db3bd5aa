"""Writes the tables of calls (``src/*.def``) from CUDA's own headers: ``make -C native calls``.

A row is a symbol that a CUDA library exports, with its arguments as the machine passes them: a pointer of any kind,
an integer of 32 or 64 bits, a floating-point number, or a structure of so many bytes. Two toolkits are read, so that
programs built with either find their symbols; where both have one name for different arguments, each argument is as
wide as the wider of the two. That is right as long as each takes one register, or one place of 64 bits on the stack,
which is so for whole numbers and pointers. A new version of CUDA is another run with its headers.

Only names, argument types and version numbers are taken over, which are facts of the interface.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import call_kinds

NATIVE = Path(__file__).resolve().parent
SHIM = """#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __builtin_align__(n)
#define __align__(n)
#define __inline__ inline
#define __forceinline__ inline
#define __specialization_static
"""
ONE_PLACE = {"p", "i", "q", "s8"}
HEADERS = {
    "driver": ("cuda.h", "CUresult"),
    "runtime": ("cuda_runtime_api.h", "cudaError_t"),
    "nvml": ("nvml.h", "nvmlReturn_t"),
}
# Old versions of calls are declared, too.
OLD = ("-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
VERSIONED = re.compile(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)\((.*)\);")


@dataclass(frozen=True)
class Call:
    """A symbol, its name and version for ``cuGetProcAddress``, and its arguments.

    ``arguments``: keys of ``call_kinds.C_TYPES``, or ``s`` and a size; ``first``: the first's type in the headers.
    """

    symbol: str
    base: str
    version: int
    arguments: tuple[str, ...]
    first: str = ""


def main(folders: list[str]) -> int:
    """Write the tables from the headers in these folders, the newest last."""
    for library in HEADERS:
        found: dict[str, Call] = {}
        for folder in (Path(folder) for folder in folders):
            for call in calls(folder, library) if (folder / HEADERS[library][0]).exists() else ():
                found[call.symbol] = merged(found[call.symbol], call) if call.symbol in found else call
        for name, text in call_kinds.tables(library, found.values()).items():
            (NATIVE / "src" / name).write_text(text, encoding="utf-8")
    return 0


def merged(one: Call, other: Call) -> Call:
    """Return a call with the arguments of both. Raises ValueError where one does not take exactly one place."""
    longer, shorter = sorted((one.arguments, other.arguments), key=len, reverse=True)
    common = tuple(wider(*pair) for pair in zip(longer, shorter, strict=False))
    if longer[: len(shorter)] != shorter and set(longer + shorter) - ONE_PLACE:
        raise ValueError(f"{one.symbol} has arguments that two toolkits pass in different ways: {longer}, {shorter}")
    return replace(other, arguments=common + longer[len(shorter) :])


def wider(one: str, other: str) -> str:
    """Return the kind that holds both."""
    return one if one == other else "q"


def calls(include: Path, library: str) -> list[Call]:
    """Return the calls that the headers of one toolkit declare."""
    header, result = HEADERS[library]
    text = preprocessed(include, header)
    declared = dict(re.findall(rf"\b{result}\s+(\w+)\s*\(([^;]*?)\)\s*;", text))
    versions = driver_versions(include) if library == "driver" else {}
    kinds = argument_kinds(include, header, sorted({kind for args in declared.values() for kind in types(args)}))
    return [
        Call(symbol, *named(symbol, versions), tuple(kinds[kind] for kind in types(args)), (types(args) or [""])[0])
        for symbol, args in declared.items()
    ]


def preprocessed(include: Path, header: str, more: str = "") -> str:
    """Return a header after the preprocessor, with the old versions of calls and those of threads' own streams."""
    return compiled(include, f"#include <{header}>\n{more}", "-E", "-P", *OLD)


def compiled(include: Path, source: str, *options: str) -> str:
    """Return what the compiler writes for a source. Raises CalledProcessError with its messages."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "crt").mkdir()
        (Path(folder) / "crt" / "host_defines.h").write_text(SHIM, encoding="utf-8")
        command = ["cc", *options, "-I", folder, "-I", str(include), "-x", "c", "-", "-o", "-"]
        done = subprocess.run(command, input=source, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - fixed
        return done.stdout


def types(arguments: str) -> list[str]:
    """Return the types of a declaration's arguments, their names left out."""
    found = []
    for argument in split(arguments):
        text = " ".join(argument.split())
        if text in ("void", ""):
            continue
        if "(" in text or "*" in text or "[" in text:
            found.append("void *")
        else:
            words = text.replace("const ", "").split("=")[0].split()
            found.append(" ".join(words[:-1] or words))
    return found


def split(arguments: str) -> list[str]:
    """Return the arguments, with those that are functions in one piece."""
    found, depth, piece = [], 0, ""
    for letter in arguments + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append(piece)
            piece = ""
        else:
            piece += letter
    return found


def argument_kinds(include: Path, header: str, names: list[str]) -> dict[str, str]:
    """Return how the machine passes each type, as the compiler says: its class (gcc's typeclass.h) and its size."""
    probes = "".join(
        f"char k{index}[] = {{__builtin_classify_type(*({name} *)0), 0}}; int s{index} = sizeof({name});\n"
        for index, name in enumerate(names)
    )
    text = compiled(include, f"#include <{header}>\n{probes}", "-S", *OLD)
    classes = dict(re.findall(r"^k(\d+):\n\s+\.(?:string|ascii|byte|asciz)\s+(.*)$", text, re.M))
    sizes = dict(re.findall(r"^s(\d+):\n\s+\.long\s+(\d+)$", text, re.M))
    return {name: kind_of(classes[str(i)], int(sizes[str(i)])) for i, name in enumerate(names)}


def kind_of(written: str, size: int) -> str:
    """Return the kind of a type from the assembler's string that holds its class."""
    number = ord(written.strip('"').encode().decode("unicode_escape")[0])
    if number == 5:
        return "p"
    if number in (12, 13):
        return f"s{size}"
    if number == 8:
        return "f" if size == 4 else "d"
    return "q" if size == 8 else "i"


def driver_versions(include: Path) -> dict[str, list[tuple[int, str]]]:
    """Return for each name of the driver API its versions with the suffix of their default stream, oldest first."""
    found: dict[str, list[tuple[int, str]]] = {}
    for base, version, suffix, _ in VERSIONED.findall((include / "cudaTypedefs.h").read_text(encoding="utf-8")):
        found.setdefault(base, []).append((int(version), suffix))
    return {base: sorted(rows) for base, rows in found.items()}


def named(symbol: str, versions: dict[str, list[tuple[int, str]]]) -> tuple[str, int]:
    """Return name and version by which ``cuGetProcAddress`` knows a symbol: the n-th version has the suffix _vn."""
    base, generation, suffix = re.fullmatch(r"(\w+?)(?:_v(\d))?(_pt[sd][sz])?", symbol).groups()  # type: ignore[union-attr]
    plain = [version for version, stream in versions.get(base, ()) if not stream]
    if not plain:
        return base, 0
    at = min(int(generation or 1), len(plain)) - 1
    threaded = [version for version, stream in versions[base] if stream == suffix and version >= plain[at]]
    return base, (threaded[0] if suffix and threaded else plain[at])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
