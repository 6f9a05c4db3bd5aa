# expect: ^# TYPE gpu_memory_used_bytes gauge$
# expect: ^gpu_memory_used_bytes\{gpu="0"\} \d+$
# expect: ^gpu_utilisation_percent\{gpu="0"\} \d+$
import csv
import io
import subprocess
import time

QUERY = "index,memory.used,utilization.gpu,temperature.gpu"


def read():
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    text = subprocess.check_output(command, text=True, timeout=10)
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        index, memory, busy, temperature = map(int, row)
        yield index, memory * 2**20, busy, temperature


def render(rows):
    lines = ["# TYPE gpu_memory_used_bytes gauge"]
    lines += [f'gpu_memory_used_bytes{{gpu="{index}"}} {memory}' for index, memory, _, _ in rows]
    lines.append("# TYPE gpu_utilisation_percent gauge")
    lines += [f'gpu_utilisation_percent{{gpu="{index}"}} {busy}' for index, _, busy, _ in rows]
    return "\n".join(lines) + "\n"


for _ in range(2):
    print(render(list(read())), end="", flush=True)
    time.sleep(1)
