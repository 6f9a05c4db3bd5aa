# exit: 3
# expect: ^mat1 and mat2 shapes cannot be multiplied \(2x8 and 4x3\)$
# expect: ^Expected all tensors to be on the same device
# expect: ^The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 0$
# expect: ^AttributeError: module 'torch' has no attribute 'nonsense'$
import sys

import torch

layer = torch.nn.Linear(4, 3)
failures = 0
for attempt in (
    lambda: layer(torch.ones(2, 8)),
    lambda: layer(torch.ones(2, 4, device="cuda")),
    lambda: torch.ones(3) + torch.ones(4),
):
    try:
        attempt()
    except RuntimeError as error:
        failures += 1
        print(str(error).splitlines()[0])
try:
    torch.nonsense(1)
except AttributeError as error:
    print(f"AttributeError: {error}")
sys.exit(failures)
