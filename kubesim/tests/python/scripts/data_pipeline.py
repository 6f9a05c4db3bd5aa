# expect: ^32 files, \d+ bytes$
# expect: ^batch 0: \(8, 3, 16, 16\) torch\.float32 -> labels \[
# expect: ^loaded 32 samples in \d+\.\d+ s$
import csv
import os
import random
import struct
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self, folder, index):
        self.folder = folder
        with open(index, newline="") as file:
            self.rows = list(csv.DictReader(file))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        with open(os.path.join(self.folder, row["file"]), "rb") as file:
            (seed,) = struct.unpack("<I", file.read(4))
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(3, 16, 16, generator=generator), int(row["label"])


with tempfile.TemporaryDirectory() as folder:
    index = os.path.join(folder, "index.csv")
    with open(index, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "label"])
        for number in range(32):
            name = f"sample-{number:03d}.bin"
            with open(os.path.join(folder, name), "wb") as out:
                out.write(struct.pack("<I", number) + bytes(60))
            writer.writerow([name, random.randrange(4)])
    names = [name for name in os.listdir(folder) if name.endswith(".bin")]
    print(f"{len(names)} files, {sum(os.stat(os.path.join(folder, name)).st_size for name in names)} bytes")
    loader = DataLoader(Samples(folder, index), batch_size=8, shuffle=False, num_workers=4, pin_memory=True)
    began, count = time.monotonic(), 0
    for number, (images, labels) in enumerate(loader):
        if number == 0:
            print(f"batch 0: {tuple(images.shape)} {images.dtype} -> labels {labels.tolist()}")
        images = images.to("cuda", non_blocking=True)
        count += len(labels)
    print(f"loaded {count} samples in {time.monotonic() - began:.2f} s")
