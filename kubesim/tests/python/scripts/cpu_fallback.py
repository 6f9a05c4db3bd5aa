# gpus: 0
# exit: 1
# expect: ^cuda available: False$
# expect: ^cpu loss \d+\.\d+$
# error: ^RuntimeError: Found no NVIDIA driver on your system\.
import torch

print("cuda available:", torch.cuda.is_available())
print("devices:", torch.cuda.device_count())
model = torch.nn.Linear(16, 4)
x = torch.randn(8, 16)
loss = torch.nn.functional.cross_entropy(model(x), torch.randint(0, 4, (8,)))
loss.backward()
print(f"cpu loss {loss.item():.4f}")
assert model.weight.grad is not None and model.weight.grad.shape == (4, 16)
model.cuda()
