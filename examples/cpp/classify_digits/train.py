"""Trains a classifier of hand-written digits and saves it for C++: train.py FOLDER

digits.thz     the archive: predict(images, top), scores of the classes and the `top` best.
images.f32     360 images that it was not trained on, 64 floats each.
scores.f32     what Python computes for them, 10 floats each.
"""

import sys
from pathlib import Path

import torch
import tracehost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tracehost import TensorSpec

torch.manual_seed(0)
digits = load_digits()
train_x, test_x, train_y, test_y = (
    torch.as_tensor(part)
    for part in train_test_split(
        (digits.data / 16).astype("float32"), digits.target, test_size=360, random_state=0
    )
)

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(150):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(train_x), train_y).backward()
    optimizer.step()


@tracehost.function
def predict(images, top=3):
    scores = model(images).softmax(1)
    return {"scores": scores, "best": scores.topk(top).indices}


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
images = TensorSpec([None, 64])
tracehost.save(
    folder / "digits.thz",
    {"predict": [predict.get_concrete_function(images), predict.get_concrete_function(images, 1)]},
)
with torch.no_grad():
    scores = predict(test_x)["scores"]
test_x.numpy().tofile(folder / "images.f32")
scores.numpy().tofile(folder / "scores.f32")
right = (scores.argmax(1) == test_y).float().mean().item()
print(f"{right:.1%} of {len(test_x)} images are right")
assert right > 0.9
