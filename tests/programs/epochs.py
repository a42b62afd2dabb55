"""Train for some epochs; each epoch's loader starts new workers. usage: epochs.py EPOCHS WORKERS BATCHES [PROCESSES]"""

import multiprocessing
import sys

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS, WORKERS, BATCHES = map(int, sys.argv[1:4])
PROCESSES = int(sys.argv[4]) if len(sys.argv) > 4 else 1


class Numbers(Dataset):
    def __len__(self):
        return 4 * BATCHES

    def __getitem__(self, index):
        return torch.full((8,), float(index))


def train():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(EPOCHS):
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=WORKERS):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"{loss.item():.6f}", flush=True)


if __name__ == "__main__":
    others = [multiprocessing.get_context("spawn").Process(target=train) for _ in range(PROCESSES - 1)]
    for other in others:
        other.start()
    train()
    for other in others:
        other.join()
        assert other.exitcode == 0
