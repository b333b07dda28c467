"""Samples and dropout of every kind: the numbers and the generator as in eager."""

import pytest
import torch
import torch.nn.functional as F
from core_support import check
from torch import distributions as D
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)
IMAGE = torch.arange(96.0).view(2, 3, 4, 4)

LAYERS = {
    "Dropout": (nn.Dropout(), IMAGE),
    "Dropout1d": (nn.Dropout1d(), IMAGE[:, :, 0]),
    "Dropout2d": (nn.Dropout2d(), IMAGE),
    "Dropout3d": (nn.Dropout3d(), IMAGE),
    "AlphaDropout": (nn.AlphaDropout(), IMAGE),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(), IMAGE),
    "RReLU": (nn.RReLU(), IMAGE - 40),
    "FractionalMaxPool2d": (nn.FractionalMaxPool2d(2, output_size=2), IMAGE),
    "LSTM": (nn.LSTM(4, 4, num_layers=2, dropout=0.5), IMAGE[0]),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_that_draw(name, training):
    layer, x = LAYERS[name]
    layer.train(training)
    check(layer, x.clone().requires_grad_(), calls=4, extra=layer.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_attention_with_dropout(training):
    attention = nn.MultiheadAttention(4, 2, dropout=0.5).train(training)
    encoder = nn.TransformerEncoderLayer(4, 2, 8).train(training)

    def body(x):
        return attention(x, x, x), encoder(x)

    extra = [*attention.parameters(), *encoder.parameters()]
    check(body, torch.randn(2, 3, 4, requires_grad=True), calls=4, extra=extra)


FUNCTIONS = {
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "gumbel_softmax hard": lambda x: F.gumbel_softmax(x, hard=True),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "unused": lambda x: (F.dropout(x), x)[1],
    "rrelu": lambda x: F.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_draw(name):
    check(FUNCTIONS[name], torch.randn(1, 2, 3, requires_grad=True), calls=4)


@pytest.mark.parametrize("count", [0, 3])
def test_draws_in_branches_and_loops(count):
    def body(x, n):
        if x.sum() > 0:
            F.dropout(x)
            y = x * 2
        else:
            y = torch.rand(3)
        for _ in range(n):
            torch.randn(2)
            y = y + torch.rand(3)
        return y

    f = check(body, X, torch.tensor(count), calls=3)
    check(body, -X, torch.tensor(count), function=f, calls=3)


MADE = {
    "Normal": lambda x: D.Normal(x, 1 + x, validate_args=False),
    "Categorical": lambda x: D.Categorical(logits=x, validate_args=False),
    "Bernoulli": lambda x: D.Bernoulli(logits=x, validate_args=False),
    "Gamma": lambda x: D.Gamma(1 + x, 1 + x, validate_args=False),
    "Beta": lambda x: D.Beta(1 + x, 1 + x, validate_args=False),
    "Dirichlet": lambda x: D.Dirichlet(1 + x, validate_args=False),
    "Poisson": lambda x: D.Poisson(1 + x, validate_args=False),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, torch.eye(3), validate_args=False),
    "Exponential": lambda x: D.Exponential(1 + x, validate_args=False),
    "Laplace": lambda x: D.Laplace(x, 1 + x, validate_args=False),
    "Uniform": lambda x: D.Uniform(x, x + 1, validate_args=False),
    "Geometric": lambda x: D.Geometric(logits=x, validate_args=False),
    "Binomial": lambda x: D.Binomial(5, logits=x, validate_args=False),
    "Cauchy": lambda x: D.Cauchy(x, 1 + x, validate_args=False),
    "Weibull": lambda x: D.Weibull(1 + x, 1 + x, validate_args=False),
}


@pytest.mark.parametrize("name", MADE)
def test_samples_of_distributions(name):
    def body(x):
        d = MADE[name](x)
        sample = d.sample()
        return sample, d.log_prob(sample), d.rsample() if d.has_rsample else d.sample((2,))

    check(body, X.clone().requires_grad_(), calls=4)


def test_a_distribution_made_outside():
    d = D.Normal(X, 1 + X)
    check(lambda x: d.sample() * x, X, calls=4)
