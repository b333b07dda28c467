"""Labels images on many processes, each with the archive on a device of its own: torchrun.py ARCHIVE IMAGES

    torchrun --standalone --nproc-per-node 2 torchrun.py digits.thz images.f32

prints the label of each image, a line each. `examples/cpp/classify_digits/train.py` makes both files.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import tracehost

path, images = sys.argv[1:]
rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

predict = tracehost.load(path, device=device)["predict"]
rows = torch.frombuffer(bytearray(Path(images).read_bytes()), dtype=torch.float32).view(-1, 64)
mine = rows[rank::processes].to(device)
labels = predict(mine)["scores"].argmax(1).cpu()

parts = [None] * processes if rank == 0 else None
dist.gather_object(labels, parts)
if rank == 0:
    together = torch.empty(len(rows), dtype=torch.int64)
    for number, part in enumerate(parts):
        together[number::processes] = part
    print(*together.tolist(), sep="\n")
dist.destroy_process_group()
