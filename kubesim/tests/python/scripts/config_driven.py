# expect: ^config: TrainConfig\(steps=6, batch=8, lr=0\.05, precision='bf16', tags=\('nightly', 'smoke'\)\)$
# expect: ^\{"step": 6, "loss": \d+\.\d+, "lr": 0\.0125\}$
# error: ^WARNING train: loss is not going down
import json
import logging
import os
from dataclasses import dataclass, field, fields

import torch


@dataclass(frozen=True)
class TrainConfig:
    steps: int = 6
    batch: int = 8
    lr: float = 0.05
    precision: str = "bf16"
    tags: tuple = field(default=("nightly", "smoke"))

    @classmethod
    def from_env(cls):
        values = {}
        for entry in fields(cls):
            raw = os.environ.get(f"TRAIN_{entry.name.upper()}")
            if raw is not None:
                values[entry.name] = entry.type(raw) if callable(entry.type) else raw
        return cls(**values)


logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
log = logging.getLogger("train")
config = TrainConfig.from_env()
print("config:", config)
weights = torch.zeros(3, requires_grad=True, device="cuda")
optimizer = torch.optim.SGD([weights], lr=config.lr)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
for step in range(1, config.steps + 1):
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        x = torch.randn(config.batch, 3, device="cuda")
        loss = ((x @ weights - 1.0) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    lr = optimizer.param_groups[0]["lr"]
    print(json.dumps({"step": step, "loss": round(loss.item(), 4), "lr": lr}), flush=True)
log.warning("loss is not going down by much in %d steps", config.steps)
