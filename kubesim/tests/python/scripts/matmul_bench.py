# expect: ^ +2048 +\d+\.\d+ TFLOP/s$
# expect: ^ +8192 +\d+\.\d+ TFLOP/s$
import torch

torch.backends.cuda.matmul.allow_tf32 = True
device = torch.device("cuda:0")
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
for size in (1024, 2048, 4096, 8192):
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    b = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    for _ in range(3):
        torch.matmul(a, b)
    torch.cuda.synchronize()
    start.record()
    for _ in range(10):
        c = a @ b
    end.record()
    torch.cuda.synchronize()
    seconds = start.elapsed_time(end) / 1000 / 10
    assert c.shape == (size, size)
    print(f"{size:6d} {2 * size**3 / seconds / 1e12:8.1f} TFLOP/s")
