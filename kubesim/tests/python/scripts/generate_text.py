# expect: ^loading weights \(\d+\.\d M parameters\) onto cuda$
# expect: ^request 3: 8 tokens in \d+\.\d+ s$
import random
import time

import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, vocabulary=1000, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(nn.GRU(width, width, batch_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x, _ = block(x)
        return self.out(self.norm(x))

    @torch.inference_mode()
    def generate(self, prompt, count, temperature=0.8):
        tokens = prompt
        for _ in range(count):
            logits = self(tokens)[:, -1] / temperature
            following = torch.multinomial(torch.softmax(logits, dim=-1), num_samples=1)
            tokens = torch.cat([tokens, following], dim=1)
        return tokens


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Generator().eval()
    size = sum(p.numel() for p in model.parameters()) / 1e6
    print(f"loading weights ({size:.1f} M parameters) onto {device}", flush=True)
    model = model.half().to(device) if device == "cuda" else model
    for request in range(1, 4):
        prompt = torch.tensor([[random.randrange(1000) for _ in range(4)]], device=device)
        began = time.perf_counter()
        answer = model.generate(prompt, 8)
        assert answer.shape == (1, 12), answer.shape
        print(f"request {request}: 8 tokens in {time.perf_counter() - began:.3f} s", flush=True)


main()
