# expect: ^NVIDIA .*\d+ MiB free of \d+ MiB$
# expect: ^step   10  loss \d+\.\d{3}  lr \d\.\d\de-0\d  \d+\.\d tok/s$
# expect: ^peak memory: \d+\.\d MiB$
import math
import time

import torch
import torch.nn as nn

VOCAB, WIDTH, LENGTH = 500, 32, 16


class Positional(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        scale = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, width)
        table[:, 0::2] = torch.sin(position * scale)
        table[:, 1::2] = torch.cos(position * scale)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.position = Positional(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1)).to(tokens.device)
        return self.head(self.encoder(self.position(self.embed(tokens)), mask=mask))


device = torch.device("cuda")
free, total = torch.cuda.mem_get_info()
print(f"{torch.cuda.get_device_name(0)}: {free // 2**20} MiB free of {total // 2**20} MiB")
torch.cuda.reset_peak_memory_stats()
model = LanguageModel().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
scaler = torch.cuda.amp.GradScaler()
loss_of = nn.CrossEntropyLoss()
began = time.perf_counter()
for step in range(1, 21):
    tokens = torch.randint(0, VOCAB, (4, LENGTH + 1), device=device)
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(tokens[:, :-1])
        loss = loss_of(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    scheduler.step()
    if step % 10 == 0:
        torch.cuda.synchronize()
        rate = step * 4 * LENGTH / (time.perf_counter() - began)
        print(f"step {step:4d}  loss {loss.item():.3f}  lr {scheduler.get_last_lr()[0]:.2e}  {rate:.1f} tok/s")
print(f"peak memory: {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
