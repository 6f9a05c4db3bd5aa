# expect: ^hostname +\S+$
# expect: ^python +3\.\d+\.\d+$
# expect: ^torch +\d+\.\d+
# expect: ^cuda +12\.\d$
# expect: ^gpu 0 +NVIDIA .* \d+ GiB, capability \d\.\d$
# expect: ^nvidia-smi +NVIDIA
# expect: ^limit +\d+|^limit +max
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import torch

rows = {
    "hostname": socket.gethostname(),
    "python": platform.python_version(),
    "executable": sys.executable,
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "cpus": os.cpu_count(),
    "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "<unset>"),
    "limit": Path("/sys/fs/cgroup/memory.max").read_text().strip(),
}
for number in range(torch.cuda.device_count()):
    found = torch.cuda.get_device_properties(number)
    rows[f"gpu {number}"] = (
        f"{found.name} {round(found.total_memory / 2**30)} GiB, capability {found.major}.{found.minor}"
    )
answer = subprocess.run(
    ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
    capture_output=True, text=True, check=True,
)  # fmt: skip
rows["nvidia-smi"] = answer.stdout.strip()
width = max(map(len, rows))
for name, value in rows.items():
    print(f"{name:<{width}} {value}")
