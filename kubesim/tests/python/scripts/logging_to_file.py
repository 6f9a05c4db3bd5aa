# expect: ^done, see /var/log/train\.log$
# absent: step
# file: /var/log/train.log: INFO step=20 loss=\d+\.\d+
import logging
import sys
import time

import torch
from torch import nn

logging.basicConfig(
    filename="/var/log/train.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
)
log = logging.getLogger("train")

device = "cuda:0" if torch.cuda.is_available() else "cpu"
log.info("device %s, torch %s", device, torch.__version__)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.MSELoss()
for step in range(1, 21):
    x = torch.randn(16, 32, device=device)
    y = x.sum(dim=1, keepdim=True)
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    log.info("step=%d loss=%.4f", step, loss.item())
    time.sleep(0.1)
print("done, see /var/log/train.log")
sys.exit(0)
