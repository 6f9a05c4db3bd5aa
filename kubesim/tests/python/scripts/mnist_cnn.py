# expect: ^Using device: cuda$
# expect: ^Epoch 1/2 \| train loss \d\.\d{4} \| val acc \d+\.\d\d%$
# expect: ^Saved /tmp/mnist\.pt \(\d+ parameters\)$
import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(16 * 7 * 7, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = self.drop(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"Using device: {device}", flush=True)
    images = torch.randn(96, 1, 28, 28)
    labels = torch.randint(0, 10, (96,))
    train = DataLoader(TensorDataset(images, labels), batch_size=args.batch_size, shuffle=True, num_workers=2)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        began, total = time.time(), 0.0
        for x, y in train:
            x, y = x.to(device, non_blocking=True), y.to(device)
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            right = (model(images.to(device)).argmax(dim=1) == labels.to(device)).sum().item()
        print(
            f"Epoch {epoch + 1}/{args.epochs} | train loss {total / len(train):.4f} | val acc {100 * right / 96:.2f}%",
            flush=True,
        )
        assert time.time() >= began
    torch.save(model.state_dict(), "/tmp/mnist.pt")
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert os.path.getsize("/tmp/mnist.pt") > 0
    print(f"Saved /tmp/mnist.pt ({count} parameters)")


if __name__ == "__main__":
    main()
