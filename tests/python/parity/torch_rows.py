"""What PyTorch starts: in one row, since each process imports it."""

from .row import Row

LOADER = """import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == '__main__':
    data = TensorDataset(torch.arange(8.0))
    for context in 'fork', 'spawn', 'forkserver':
        for batch, in DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context):
            print(context, batch)
"""

TORCH = [
    Row(
        "data loaders with fork, spawn and forkserver", ("s.py",), files={"s.py": LOADER}, slow=True
    )
]
