"""Evaluates a classifier over a data set; the last batch is a smaller one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    total, correct, loss = 0, 0, 0.0
    for inputs, labels in loader:
        batch_loss, hits = batch_metrics(model, inputs, labels, criterion)
        total += labels.size(0)
        correct += hits.item()
        loss += batch_loss.item() * labels.size(0)
    return loss / total, correct / total


def batch_metrics(model, inputs, labels, criterion):
    outputs = model(inputs)
    return criterion(outputs, labels), (outputs.argmax(1) == labels).sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    inputs = torch.randn(203, 8)
    dataset = TensorDataset(inputs, inputs[:, :3].argmax(1))
    net, criterion = Net(), nn.CrossEntropyLoss()
    for batch_size in (32, 50):
        loader = DataLoader(dataset, batch_size=batch_size, num_workers=1)
        loss, accuracy = evaluate(net, loader, criterion)
        print(f"batch size {batch_size}: loss {loss:.5f}, accuracy {100 * accuracy:.2f} %")
