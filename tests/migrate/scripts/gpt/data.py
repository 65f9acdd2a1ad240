"""Text without a file: a sequence with a rule in it, cut into blocks."""

import torch
from torch.utils.data import Dataset

BLOCK = 16


class Blocks(Dataset):
    def __init__(self, count=64):
        generator = torch.Generator().manual_seed(7)
        steps = torch.randint(1, 4, (count * BLOCK + 1,), generator=generator)
        self.tokens = torch.cumsum(steps, 0) % 48
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        at = index * BLOCK
        return self.tokens[at : at + BLOCK], self.tokens[at + 1 : at + 1 + BLOCK]
