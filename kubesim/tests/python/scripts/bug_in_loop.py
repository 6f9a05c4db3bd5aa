# exit: 1
# expect: ^step 2$
# error: ^  File ".*bug_in_loop\.py", line \d+, in train$
# error: ^    rate = total / \(step - 3\)$
# error: ^ZeroDivisionError: (float )?division by zero$
import torch


def train(model, steps):
    total = 0.0
    for step in range(steps):
        out = model(torch.ones(1, 4, device="cuda"))
        total += float(out.sum())
        rate = total / (step - 3)
        print("step", step, flush=True)
    return rate


class Doubling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.scale


train(Doubling().cuda(), 10)
