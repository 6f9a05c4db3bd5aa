# expect: ^starting from scratch$
# expect: ^resuming from step 5$
# expect: ^finished at step 10$
import json
import os
import signal
from pathlib import Path

import torch
from torch import nn, optim

FOLDER = Path(os.environ.get("CHECKPOINTS", "/tmp/checkpoints"))
FOLDER.mkdir(parents=True, exist_ok=True)
stopped = False


def stop(number, frame):
    global stopped
    stopped = True


signal.signal(signal.SIGTERM, stop)


def latest():
    found = sorted(FOLDER.glob("step-*.pt"))
    return found[-1] if found else None


def run(until):
    torch.manual_seed(0)
    model = nn.Linear(8, 2).cuda()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    first = 0
    if (path := latest()) is not None:
        state = torch.load(path, map_location="cuda", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        print("resuming from step", first)
    else:
        print("starting from scratch")
    for step in range(first + 1, until + 1):
        loss = model(torch.ones(4, 8, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            name = FOLDER / f"step-{step:05d}.pt"
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, name)
            (FOLDER / "meta.json").write_text(json.dumps({"last": name.name, "loss": float(loss)}))
        if stopped:
            break
    print("finished at step", step)


run(5)
run(10)
assert json.loads((FOLDER / "meta.json").read_text())["last"] == "step-00010.pt"
