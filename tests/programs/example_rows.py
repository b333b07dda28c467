"""PyTorch's own examples, the list of their README, rewritten and small: the whole step is decorated."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

from programs.language_rows import (
    Entailment,
    LstmLanguage,
    TransformerLanguage,
    Translator,
    language_model,
    sentences,
    time_sequence,
    translated,
    two_sentences,
)
from programs.program import Decorate, Maker, Program, generator, trained, training

CLASSES = 10


def rows() -> dict[str, Maker]:
    steps = {
        "mnist": training(digits, images, labelled, torch.optim.Adadelta),
        "mnist_rnn": training(RowsOfPixels, images, labelled, torch.optim.Adadelta),
        "mnist_forward_forward": forward_forward,
        "imagenet": imagenet,
        "word_language_model, LSTM": language_model(LstmLanguage),
        "word_language_model, Transformer": language_model(TransformerLanguage),
        "language_translation": training(Translator, sentences, translated, torch.optim.Adam),
        "dcgan": dcgan,
        "vae": training(Autoencoder, images, reconstructed, torch.optim.Adam),
        "super_resolution": training(super_resolution, pixels, enlarged, torch.optim.Adam),
        "siamese_network": training(Siamese, pairs, labelled, torch.optim.Adadelta),
        "vision_transformer": training(VisionTransformer, images, labelled, torch.optim.AdamW),
        "fast_neural_style": training(StyleTransfer, pixels, styled, torch.optim.Adam),
        "snli": training(Entailment, two_sentences, labelled, torch.optim.Adam),
        "gcn": training(GraphConvolutions, graph, labelled, torch.optim.Adam),
        "gat": training(GraphAttention, graph, labelled, torch.optim.Adam),
        "reinforcement_learning, reinforce": reinforcement(with_critic=False),
        "reinforcement_learning, actor_critic": reinforcement(with_critic=True),
        "regression": regression,
        "time_sequence_prediction": time_sequence,
    }
    return {f"torch/{name}/step": maker for name, maker in steps.items()}


def images(model, index: int) -> dict[str, torch.Tensor]:
    draw = generator(index)
    return {
        "x": torch.rand(8, 1, 28, 28, generator=draw),
        "target": torch.randint(CLASSES, (8,), generator=draw),
    }


def labelled(model, target, **given) -> torch.Tensor:
    return F.nll_loss(model(**given), target)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(1152, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


digits = Digits


class RowsOfPixels(nn.Module):
    """mnist_rnn: a picture is a sequence of its rows."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(input_size=28, hidden_size=16, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.drop, self.fc = nn.Dropout(0.25), nn.Linear(16, CLASSES)

    def forward(self, x):
        output, _ = self.rnn(x.reshape(-1, 28, 28))
        output = self.drop(self.norm(output[:, -1, :]))
        return F.log_softmax(self.fc(output), dim=1)


def forward_forward(decorate: Decorate) -> Program:
    """Each layer has an optimizer and a loss of its own; a label is written into the picture."""
    layers = [nn.Linear(784, 16), nn.Linear(16, 16)]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.02) for layer in layers]

    def labelled_as(x, y):
        x = x.clone()
        x[:, :CLASSES] = 0.0
        x[range(x.shape[0]), y] = x.max()
        return x

    def output(layer, x):
        return torch.relu(layer(x / (x.norm(2, 1, keepdim=True) + 1e-4)))

    @decorate
    def step(x, y, wrong):
        good, bad = labelled_as(x, y), labelled_as(x, wrong)
        losses = []
        for layer, optimizer in zip(layers, optimizers):
            goods = output(layer, good).pow(2).mean(1)
            bads = output(layer, bad).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([-goods + 2.0, bads - 2.0]))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            good, bad = output(layer, good).detach(), output(layer, bad).detach()
            losses.append(loss.item())
        return losses

    def run(index):
        given = images(None, index)
        x, y = given["x"].flatten(1), given["target"]
        return step(x, y, y[torch.randperm(8, generator=generator(index))])

    return Program(run, lambda: [trained(m, o) for m, o in zip(layers, optimizers)])


class Meter:
    def __init__(self):
        self.value = self.average = self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n
        self.average = self.sum / self.count


def imagenet(decorate: Decorate) -> Program:
    """A resnet's block with SGD and a schedule; the loss and the accuracy of the best k are averaged as numbers."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, CLASSES),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    criterion, losses, best = nn.CrossEntropyLoss(), Meter(), Meter()

    @decorate
    def step(x, target):
        output = model(x)
        loss = criterion(output, target)
        with torch.no_grad():
            _, found = output.topk(5, 1, True, True)
            correct = found.t().eq(target.view(1, -1).expand(5, 8))
            accuracy = [correct[:k].reshape(-1).float().sum(0).mul_(100.0 / 8) for k in (1, 5)]
        losses.update(loss.item(), x.size(0))
        best.update(accuracy[0].item(), x.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach(), accuracy

    meters = lambda: (vars(losses), vars(best), scheduler.state_dict())
    return Program(
        lambda index: step(**images(None, index)), lambda: (trained(model, optimizer), meters())
    )


def dcgan(decorate: Decorate) -> Program:
    """Two networks, each with its own optimizer, in one step; their outputs' means are numbers."""
    discriminator = nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 8, 4, 2, 1, bias=False),
        nn.BatchNorm2d(8), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    )  # fmt: skip
    maker = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
        nn.ConvTranspose2d(4, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    networks = (discriminator, maker)
    optimizers = [torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in networks]
    criterion = nn.BCELoss()

    @decorate
    def step(real):
        discriminator.zero_grad()
        label = torch.full((real.size(0),), 1.0, dtype=real.dtype)
        output = discriminator(real).view(-1)
        loss_of_real = criterion(output, label)
        loss_of_real.backward()
        mean_of_real = output.mean().item()
        fake = maker(torch.randn(real.size(0), 6, 1, 1))
        label.fill_(0.0)
        loss_of_fake = criterion(discriminator(fake.detach()).view(-1), label)
        loss_of_fake.backward()
        optimizers[0].step()
        maker.zero_grad()
        label.fill_(1.0)
        output = discriminator(fake).view(-1)
        loss = criterion(output, label)
        loss.backward()
        optimizers[1].step()
        return (loss_of_real + loss_of_fake).item(), loss.item(), mean_of_real, output.mean().item()

    def run(index):
        return step(torch.rand(4, 3, 16, 16, generator=generator(index)))

    return Program(run, lambda: [trained(m, o) for m, o in zip(networks, optimizers)])


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.mean, self.spread = nn.Linear(784, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.fc3, self.fc4 = nn.Linear(4, 16), nn.Linear(16, 784)

    def forward(self, x):
        hidden = F.relu(self.fc1(x.view(-1, 784)))
        mean, logvar = self.mean(hidden), self.spread(hidden)
        std = torch.exp(0.5 * logvar)
        z = mean + torch.randn_like(std) * std
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar


def reconstructed(model, x, target) -> torch.Tensor:
    found, mean, logvar = model(x)
    error = F.binary_cross_entropy(found, x.view(-1, 784), reduction="sum")
    return error - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())


def super_resolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 5, 1, 2), nn.ReLU(), nn.Conv2d(8, 12, 3, 1, 1), nn.PixelShuffle(2))  # fmt: skip


def pixels(model, index):
    return {"x": torch.rand(2, 3, 8, 8, generator=generator(index))}


def enlarged(model, x) -> torch.Tensor:
    return F.mse_loss(model(x), F.interpolate(x, scale_factor=2.0))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(676, 8)
        )
        self.head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))

    def forward(self, a, b):
        both = torch.cat((self.tower(a), self.tower(b)), 1)
        return F.log_softmax(self.head(both), 1)


def pairs(model, index):
    draw = generator(index)
    a, b = torch.rand(2, 8, 1, 28, 28, generator=draw)
    return {"a": a, "b": b, "target": torch.randint(2, (8,), generator=draw)}


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 7, 7)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True, norm_first=True)  # fmt: skip
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, CLASSES))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.position
        return F.log_softmax(self.head(self.encoder(x)[:, 0]), 1)


class StyleTransfer(nn.Module):
    """The network that is trained, and one that only measures."""

    def __init__(self):
        super().__init__()
        self.painter = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.Upsample(scale_factor=2.0), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3, 2),
        )  # fmt: skip
        self.features = nn.Conv2d(3, 6, 3, 1, 1).requires_grad_(False)

    def forward(self, x):
        y = self.painter(x)
        return y, self.features(y).relu(), self.features(x).relu()


def gram(y: torch.Tensor) -> torch.Tensor:
    b, ch, h, w = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


def styled(model, x) -> torch.Tensor:
    _, painted, content = model(x)
    style = gram(content).flip(0)
    return 1e5 * F.mse_loss(painted, content) + 1e6 * F.mse_loss(gram(painted), style)


class GraphConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(6, 8) * 0.1)
        self.second = nn.Parameter(torch.randn(8, 3) * 0.1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x, adjacency):
        x = F.relu(torch.mm(adjacency, torch.mm(x, self.first)))
        return F.log_softmax(torch.mm(adjacency, torch.mm(self.dropout(x), self.second)), dim=1)


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.score = nn.Linear(6, 3, bias=False), nn.Parameter(torch.randn(6, 1) * 0.1)

    def forward(self, x, adjacency):
        h = F.dropout(self.weight(x), 0.2, training=self.training)
        scores = F.leaky_relu(h @ self.score[:3] + (h @ self.score[3:]).t(), 0.2)
        scores = torch.where(adjacency > 0, scores, -9e16 * torch.ones_like(scores))
        return F.log_softmax(F.elu(F.softmax(scores, dim=-1) @ h), dim=1)


def graph(model, index):
    draw = generator(index)
    edges = (torch.rand(10, 10, generator=draw) > 0.6).float() + torch.eye(10)
    return {
        "x": torch.randn(10, 6, generator=draw),
        "adjacency": edges / edges.sum(1, keepdim=True),
        "target": torch.randint(3, (10,), generator=draw),
    }


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.action, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.inner(x))
        return F.softmax(self.action(x), dim=-1), self.value(x)


def reinforcement(with_critic: bool) -> Maker:
    """An episode of six steps in an environment of tensors, and the update after it."""

    def maker(decorate: Decorate) -> Program:
        policy = Policy()
        optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
        eps = 1e-8

        @decorate
        def episode(state, goal):
            saved, rewards = [], []
            for _ in range(6):
                probs, value = policy(state)
                choice = Categorical(probs)
                action = choice.sample()
                saved.append((choice.log_prob(action), value))
                state = torch.tanh(state + (action * 2 - 1) * 0.1)
                rewards.append(-(state - goal).square().mean().item())
            total, returns = 0, []
            for reward in rewards[::-1]:
                total = reward + 0.99 * total
                returns.insert(0, total)
            returns = torch.tensor(returns)
            returns = (returns - returns.mean()) / (returns.std() + eps)
            losses, of_values = [], []
            for (log_prob, value), expected in zip(saved, returns):
                advantage = expected - value.item() if with_critic else expected
                losses.append(-log_prob * advantage)
                of_values.append(F.smooth_l1_loss(value, expected.view(1)))
            optimizer.zero_grad()
            loss = torch.stack(losses).sum()
            if with_critic:
                loss = loss + torch.stack(of_values).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def run(index):
            state, goal = torch.randn(2, 4, generator=generator(index))
            return episode(state, goal)

        return Program(run, lambda: trained(policy, optimizer))

    return maker


def regression(decorate: Decorate) -> Program:
    """A polynomial of the fourth degree; the step is taken by hand."""
    fc = nn.Linear(4, 1)
    weights = torch.tensor([[3.0], [-2.0], [0.5], [1.0]])

    @decorate
    def step(x):
        features = torch.cat([x.unsqueeze(1) ** i for i in range(1, 5)], 1)
        target = features.mm(weights) + 0.7
        fc.zero_grad()
        output = F.smooth_l1_loss(fc(features), target)
        loss = output.item()
        output.backward()
        for parameter in fc.parameters():
            parameter.data.add_(-0.1 * parameter.grad)
        return loss

    def run(index):
        return step(torch.randn(32, generator=generator(index)))

    return Program(run, lambda: [(p, p.grad) for p in fc.parameters()])
