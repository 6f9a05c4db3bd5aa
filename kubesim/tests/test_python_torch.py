"""torch in the sandbox: small tensors are computed as PyTorch does, large ones take the device's memory and time."""

import asyncio
import re

import pytest

from kubesim.tests.containers import run
from kubesim.tests.guest_python import python, wrong
from kubesim.tests.test_gpu_given import board
from kubesim.tests.world import container, pod, world

NGC = "nvcr.io/nvidia/pytorch:25.01-py3"
USED = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
UTILIZATION = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
ONE_GPU = {"limits": {"nvidia.com/gpu": 1}}
ENCODER = """TransformerEncoder(
  (layers): ModuleList(
    (0-1): 2 x TransformerEncoderLayer(
      (self_attn): MultiheadAttention(
        (out_proj): NonDynamicallyQuantizableLinear(in_features=16, out_features=16, bias=True)
      )
      (linear1): Linear(in_features=16, out_features=32, bias=True)
      (dropout): Dropout(p=0.1, inplace=False)
      (linear2): Linear(in_features=32, out_features=16, bias=True)
      (norm1): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
      (norm2): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
      (dropout1): Dropout(p=0.1, inplace=False)
      (dropout2): Dropout(p=0.1, inplace=False)
      (activation): GELU(approximate='none')
    )
  )
)"""
"""Printout by PyTorch of an encoder with two layers."""
PRINTED = {
    "(x := torch.tensor(3.0, requires_grad=True)) is None or (x * x + 2 * x).backward() or x.grad": "tensor(8.)",
    "torch.equal(torch.manual_seed(0) and torch.rand(5), torch.manual_seed(0) and torch.rand(5))": "True",
    "torch.equal(torch.manual_seed(0) and torch.randn(3), torch.manual_seed(1) and torch.randn(3))": "False",
    "nn.Linear(3, 2, nonsense=1)": "TypeError: Linear.__init__() got an unexpected keyword argument 'nonsense'",
    "nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(1, 2, 3)": (
        "(Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)), "
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1)))"
    ),
    "torch.ones(2).sum(nonsense=1)": "TypeError: sum() got an unexpected keyword argument 'nonsense'",
    "torch.from_numpy(__import__('numpy').ones(2)).dtype": "torch.float64",
    "torch.tensor(__import__('numpy').array(list(range(70000))))[69999]": "tensor(69999)",
    "nn.ReLU(nonsense=1)": "TypeError: ReLU.__init__() got an unexpected keyword argument 'nonsense'",
    "torch.optim.Adam([torch.ones(1)], nonsense=1)": (
        "TypeError: Adam.__init__() got an unexpected keyword argument 'nonsense'"
    ),
    "torch.utils.data.DataLoader([1], nonsense=1)": (
        "TypeError: DataLoader.__init__() got an unexpected keyword argument 'nonsense'"
    ),
    "torch.ones(2, nonsense=1)": "TypeError: ones() got an unexpected keyword argument 'nonsense'",
    "torch.tensor([[1.0, 2000.0]])": "tensor([[1.0000e+00, 2.0000e+03]])",
    "torch.arange(6).reshape(2, 3).t()": "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])",
    "nn.CrossEntropyLoss()(torch.tensor([[1.0, 2, 3], [1, 2, 3]]), torch.tensor([2, 0]))": "tensor(1.4076)",
    "nn.LayerNorm(4)(torch.tensor([1.0, 2, 3, 4])).detach()": "tensor([-1.3416, -0.4472,  0.4472,  1.3416])",
    "torch.ones(2, 2, dtype=torch.float16)": "tensor([[1., 1.],\n        [1., 1.]], dtype=torch.float16)",
    "torch.ones(3).size(), torch.ones(2).to('cpu').device": "(torch.Size([3]), device(type='cpu'))",
    "nn.Sequential(nn.Linear(2, 8), nn.ReLU())": (
        "Sequential(\n  (0): Linear(in_features=2, out_features=8, bias=True)\n  (1): ReLU()\n)"
    ),
    "torch.softmax(torch.randn(1000, 1000) @ torch.randn(1000, 1000), dim=-1).sum(-1)[0].round()": "tensor(1.)",
    "0.7 < nn.L1Loss()(torch.randn(100000), torch.zeros(100000)).item() < 1": "True",
    "torch.zeros(3) + torch.zeros(4)": (
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0"
    ),
    "torch.zeros(2, 3) @ torch.zeros(2, 3)": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    "torch.zeros(6).view(4, 2)": "RuntimeError: shape '[4, 2]' is invalid for input of size 6",
    "torch.relu(torch.tensor([1.0, -2.0]))": "tensor([1., 0.])",
    "torch.arange(100)[50:53].clone()": "tensor([50, 51, 52])",
    "nn.MaxPool2d(2)": "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
    "nn.LayerNorm(16), nn.LayerNorm((2, 3), elementwise_affine=False)": (
        "(LayerNorm((16,), eps=1e-05, elementwise_affine=True), "
        "LayerNorm((2, 3), eps=1e-05, elementwise_affine=False))"
    ),
    "nn.GELU(), nn.ReLU(inplace=True), nn.ReLU()": "(GELU(approximate='none'), ReLU(inplace=True), ReLU())",
    "nn.GRU(3, 4), nn.GRU(3, 4, num_layers=2, batch_first=True), nn.AvgPool2d(2)": (
        "(GRU(3, 4), GRU(3, 4, num_layers=2, batch_first=True), AvgPool2d(kernel_size=2, stride=2, padding=0))"
    ),
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, activation=nn.GELU()), 2)": ENCODER,
    "list(nn.TransformerEncoderLayer(16, 4).state_dict())[2:5]": (
        "['self_attn.out_proj.weight', 'self_attn.out_proj.bias', 'linear1.weight']"
    ),
    "type('Mine', (nn.Linear,), {})(2, 1), type('Slow', (torch.optim.SGD,), {})([torch.ones(1)]).defaults['lr']": (
        "(Mine(in_features=2, out_features=1, bias=True), 0.001)"
    ),
    "nn.CrossEntropyLoss()(input=torch.zeros(1, 2), target=torch.tensor([1]))": "tensor(0.6931)",
    "len(list(nn.GRU(3, 4, num_layers=2).parameters())), list(nn.BatchNorm1d(2).state_dict())[1:4]": (
        "(8, ['bias', 'running_mean', 'running_var'])"
    ),
    "nn.LayerNorm(4, elementwise_affine=False).weight, nn.LayerNorm(4, bias=False).bias": "(None, None)",
    "nn.LayerNorm(4)(torch.zeros(2, 3))": (
        "RuntimeError: Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"
    ),
    "nn.functional.layer_norm(torch.tensor([1.0, 2, 3, 4]), (4,))": "tensor([-1.3416, -0.4472,  0.4472,  1.3416])",
    "nn.functional.embedding(torch.tensor([2, 0]), torch.arange(6.0).reshape(3, 2))": (
        "tensor([[4., 5.],\n        [0., 1.]])"
    ),
    "nn.functional.embedding(torch.tensor([3]), torch.zeros(3, 2))": "IndexError: index out of range in self",
    "torch.utils.data.DistributedSampler, torch.utils.data.Subset, torch.utils.data.DataLoader": (
        "(<class 'torch.utils.data.distributed.DistributedSampler'>, <class 'torch.utils.data.dataset.Subset'>, "
        "<class 'torch.utils.data.dataloader.DataLoader'>)"
    ),
    "torch.sort(torch.tensor([[3, 1, 2]]), descending=True)": (
        "torch.return_types.sort(\nvalues=tensor([[3, 2, 1]]),\nindices=tensor([[0, 2, 1]]))"
    ),
    "torch.tensor([1.0, 3.0]).max(0)": "torch.return_types.max(\nvalues=tensor(3.),\nindices=tensor(1))",
    "torch.chunk(torch.arange(7), 3)": "(tensor([0, 1, 2]), tensor([3, 4, 5]), tensor([6]))",
    "torch.unique(torch.tensor([3, 1, 3]))": "tensor([1, 3])",
    "torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)": (
        "(tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))"
    ),
    "torch.tensor([-1.0, 5.0]).clip(0, 1), torch.clip(torch.tensor([4]), max=2), torch.tensor([-1.0]).clip_(min=0)": (
        "(tensor([0., 1.]), tensor([2]), tensor([0.]))"
    ),
    "(x := torch.zeros(3)).unsqueeze_(0).shape, x.shape, x.squeeze_() is x, x.shape": (
        "(torch.Size([1, 3]), torch.Size([1, 3]), True, torch.Size([3]))"
    ),
    "(x := torch.ones(2, requires_grad=True)) is None or (x * 2).unsqueeze_(1).sum().backward() or x.grad": (
        "tensor([2., 2.])"
    ),
    "torch.ones(2, requires_grad=True).unsqueeze_(0)": (
        "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation."
    ),
    "(x := torch.tensor([3.0, 1], requires_grad=True)).sort()[0][0].backward() or x.grad": "tensor([0., 1.])",
    "50 < torch.rand(1000, 100).cumsum(0).max().item() < 1500": "True",
    "torch.einsum": "AttributeError: module 'torch' has no attribute 'einsum'",
    "nn.LSTM": "AttributeError: module 'torch.nn' has no attribute 'LSTM'",
    "torch.fleur": "AttributeError: module 'torch' has no attribute 'fleur'",
    "torch.cuda.is_available(), torch.cuda.device_count()": "(False, 0)",
    **dict.fromkeys(
        ("torch.zeros(2).cuda()", "torch.cuda.init()"),
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
        "a driver from http://www.nvidia.com/Download/index.aspx",
    ),
}
XOR = """
import torch
from torch import nn
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
inputs, labels = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([[0.0], [1], [1], [0]])
for step in range(80):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), labels)
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "/tmp/xor.pt")
model.load_state_dict(torch.load("/tmp/xor.pt"))
print(loss.item() < 0.01, [round(x) for x in model(inputs).flatten().tolist()])
"""
TRAINING = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
body = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
model = nn.Sequential(*body, nn.Flatten(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = TensorDataset(torch.randn(1024, 3, 64, 64), torch.randint(0, 10, (1024,)))
begin, losses = time.perf_counter(), []
for epoch in range(2):
    for inputs, labels in DataLoader(data, batch_size=128, shuffle=True, num_workers=4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(device, losses[0] > 1.5, losses[-1] < losses[0], f"{time.perf_counter() - begin:.4f}")
"""


BUSY = """
import torch
a = torch.randn(8192, 8192, device="cuda")
while True:
    b = a @ a
    torch.cuda.synchronize()
"""


@pytest.fixture
async def trained():
    async with world(count=1) as w:
        await w.create("pods", pod("train", container(NGC, "sleep", "3600", resources=ONE_GPU)))
        await w.create("pods", pod("plain", container(NGC, "sleep", "3600")))
        await w.tick(900)
        yield w


async def test_expressions_print_what_torch_prints(trained):
    assert await wrong(trained, "import torch\nfrom torch import nn", PRINTED, "plain") == (0, {})


async def test_a_small_model_is_trained_saved_and_loaded(trained):
    assert await python(trained, XOR, "plain") == (0, "True [0, 1, 1, 0]\n")


async def test_a_large_training_learns_and_is_faster_on_a_gpu(trained):
    status, said = await python(trained, TRAINING)
    assert (status, said.split()[:3]) == (0, ["cuda", "True", "True"])
    slow = await python(trained, TRAINING, "plain")
    assert slow[1].split()[:3] == ["cpu", "True", "True"]
    assert float(slow[1].split()[3]) > 3 * float(said.split()[3])


async def test_tensors_take_the_devices_memory_and_too_large_a_one_does_not_fit(trained):
    text = "import torch, time; x = torch.ones(2**30, device='cuda'); print(x.nbytes); time.sleep(60)"
    holding = asyncio.ensure_future(run(trained, "train", "python3", "-c", text))
    for _ in range(20):
        await trained.tick(1)
        await asyncio.sleep(0.05)
    used = (await run(trained, "train", *USED))[1]
    while not holding.done():
        await trained.tick(5)
    assert holding.result()[1] == f"{2**32}\n"
    assert int(used) > 4096
    assert int((await run(trained, "train", *USED))[1]) < 1024
    status, said = await python(trained, "import torch; torch.empty(200 * 2**30, dtype=torch.uint8, device='cuda')")
    assert status == 1
    assert re.search(
        r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate 200\.00 GiB\. GPU 0 has a total", said
    )


async def test_a_layer_that_does_not_fit_leaves_no_device_behind(trained):
    text = """
import torch
try:
    torch.nn.Linear(1 << 20, 1 << 20, device="cuda")
except torch.OutOfMemoryError:
    print(torch.zeros(1).device, torch.nn.Linear(2, 2, device="cuda").weight.device)
"""
    assert await python(trained, text) == (0, "cpu cuda:0\n")


async def test_a_graph_gives_its_memory_back_when_gradients_have_gone_back(trained):
    text = """
import torch
x = torch.ones(1 << 24, device="cuda", requires_grad=True)
loss = (x.exp() * x.sin()).mean()
before = torch.cuda.memory_allocated()
loss.backward()
print(before >> 26, torch.cuda.memory_allocated() >> 26, torch.cuda.max_memory_allocated() >> 26 > before >> 26)
"""
    assert await python(trained, text) == (0, "4 2 True\n")


async def test_a_busy_program_is_seen_by_nvidia_smi_and_ends_when_its_gpu_fails(trained):
    busy = asyncio.ensure_future(run(trained, "train", "python3", "-c", BUSY))
    used = 0
    while used < 60:
        await trained.tick(1)
        used = int((await run(trained, "train", *UTILIZATION))[1])
    board(trained).xid(0, 48, trained.clock.now())
    while not busy.done():
        await trained.tick(1)
    assert busy.result()[0] == 1
    assert "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel" in busy.result()[2]
    status, said = await python(trained, "import torch; torch.ones(1).cuda()")
    assert (status, "RuntimeError: CUDA error: " in said) == (1, True)


CODE = """
import os, pickle, torch
class Evil:
    def __reduce__(self):
        return exec, ("open('/tmp/ran', 'w')",)
with open("/tmp/evil.pt", "wb") as file:
    pickle.dump({"step": 1, "model": Evil()}, file)
try:
    torch.load("/tmp/evil.pt", weights_only=True)
except pickle.UnpicklingError as error:
    print(str(error).partition(" was")[0], os.path.exists("/tmp/ran"))
torch.load("/tmp/evil.pt", weights_only=False)
print(os.path.exists("/tmp/ran"))
"""


async def test_a_file_of_weights_runs_nothing(trained):
    said = "Weights only load failed. Unsupported global: GLOBAL builtins.exec False\nTrue\n"
    assert await python(trained, CODE, "plain") == (0, said)
