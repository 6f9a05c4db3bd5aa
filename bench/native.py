"""What the native library costs a CUDA call, beside the bare call and two other ways to replace it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.figures import Figure, report

NATIVE = Path(__file__).resolve().parent.parent / "native"
BUILD = NATIVE / "build"
ROUNDS, CALLS, LAUNCHES, LAUNCH_NS = 500, 50_000, 500, 2000
"""Many short rounds: in the least of them nothing else ran."""
OTHER_GPU = "GPU-00000000-0000-0000-0000-000000000007"
"""Armed for another GPU than the one in use: each call decides, and goes on."""


def measured(preload: str, control: Path, expected: int = 0, more: Mapping[str, str] = {}) -> tuple[float, float]:
    """Return nanoseconds of a call and seconds of all launches, with these libraries preloaded.

    Raises ValueError where a call gives another result: then the library is not where the call goes.
    """
    env = {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": f"{BUILD}/bench:{BUILD}", "CUDA_FAULT_CONTROL": str(control)}
    argv = [str(BUILD / "calls"), str(ROUNDS), str(CALLS), str(LAUNCHES)]
    variables = {"PATH": os.defpath, "STUB_LAUNCH_NS": str(LAUNCH_NS), **env, **more}
    done = subprocess.run(argv, env=variables, check=True, capture_output=True, text=True)
    call, launches, result = done.stdout.split()
    if int(result) != expected:
        raise ValueError(f"A call gave {result}, not {expected}: {preload or 'the bare driver'} was not measured.")
    return float(call), float(launches)


def measured_peer(library: str, folder: Path) -> tuple[float, float]:
    """Return the same for HAMi-core, whose dlsym asks a library that a variable names for its functions."""
    own = {
        "CUDA_REDIRECT": library,
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / "hami"),
        "LIBCUDA_LOG_LEVEL": "0",
    }
    return measured(library, folder / "control", more=own)


def faultctl(control: Path, *words: str) -> None:
    """Run the control program. Raises CalledProcessError where it refuses."""
    subprocess.run([BUILD / "faultctl", "--file", control, *words], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Build, measure and report; the number of goals missed."""
    subprocess.run(["make", "-s", "-C", NATIVE, "bench"], check=True)
    library = str(BUILD / "libcudafault.so")
    hami = os.environ.get("HAMI_CORE", "")  # its libvgpu.so, where somebody has built it, without -fvisibility=hidden
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control"
        faultctl(control, "init")
        bare, bare_launches = measured("", control)
        disarmed, launches = measured(library, control)
        faultctl(control, "arm", "error=719", f"gpu={OTHER_GPU}")
        elsewhere, _ = measured(library, control)
        faultctl(control, "disarm", "all")
        faultctl(control, "arm", "error=719", "chance=0.000000001", "seed=1")
        here, _ = measured(library, control)
        faultctl(control, "arm", "error=719", "after-calls=1")
        measured(library, control, expected=719)
        naive, naive_launches = measured(str(BUILD / "naive.so"), control)
        peer = measured_peer(hami, Path(folder)) if hami else None
    print(f"a bare call takes {bare:.2f} ns, a launch {bare_launches / LAUNCHES * 1e6:.3f} us")
    if peer:
        added = 100 * (peer[1] / bare_launches - 1)
        print(f"HAMi-core adds {peer[0] - bare:.2f} ns to a call and {added:.2f} % to launches")
    else:
        print("HAMi-core is not measured: HAMI_CORE does not name its library (libvgpu.so)")
    slower, naive_slower = (100 * (seconds / bare_launches - 1) for seconds in (launches, naive_launches))
    return report(
        "native",
        [
            Figure("disarmed, over the bare call", disarmed - bare, "ns", 2, naive - bare),
            Figure("armed for another GPU, over the bare call", elsewhere - bare, "ns", 50, naive - bare),
            Figure("armed for this GPU, the call spared by chance", here - bare, "ns", 50, naive - bare),
            Figure("launches of 2 us, disarmed", slower, "% longer", 1, naive_slower),
        ],
        "naive form",
    )
