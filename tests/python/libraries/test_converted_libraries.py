"""torch's own Python code that asks for values: optimizers, distributions, modules. As eager, to the bit."""

import pytest
import torch
import tracehost
from library_support import installed
from torch import distributions as D
from torch import nn
from tracehost.autograph.conversion.policy import left_alone
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def check(make, inputs, traces):
    """`make()` gives a body with its own state; one of two runs eagerly."""
    torch.manual_seed(0)
    eager = make()
    torch.manual_seed(0)
    f = tracehost.function(make())
    for seed, args in enumerate(inputs):
        args = args if isinstance(args, tuple) else (args,)
        torch.manual_seed(seed)
        expected = eager(*args)
        torch.manual_seed(seed)
        got = f(*args)
        assert same(expected, got), f"call {seed}: {got!r}, expected {expected!r}"
    assert f.tracing_count() <= traces, f.report()


# ---- torch.optim

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "ASGD": {},
    "Muon": {"lr": 0.01},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {},
}
FORMS = {"default": {}, "foreach": {"foreach": True}, "single": {"foreach": False}}


@pytest.mark.parametrize("scheduled", [False, True], ids=["alone", "scheduled"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_an_optimizer(name, form, scheduled):
    def make():
        net = nn.Sequential(
            nn.Linear(4, 5, bias=name != "Muon"), nn.Tanh(), nn.Linear(5, 1, bias=name != "Muon")
        )
        options = {} if name == "Muon" else FORMS[form]
        optimizer = getattr(torch.optim, name)(net.parameters(), **OPTIMIZERS[name], **options)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if scheduled else None

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            if scheduler:
                scheduler.step()
            return loss.item(), [p.detach().clone() for p in net.parameters()]

        step.state = lambda: optimizer.state_dict()["state"]
        return step

    torch.manual_seed(0)
    eager = make()
    torch.manual_seed(0)
    traced = make()
    f = tracehost.function(traced)
    for _ in range(20):
        x = torch.randn(3, 4)
        assert same(eager(x), f(x))
        assert same(eager.state(), traced.state())
    assert f.tracing_count() <= 3


def test_sparse_adam():
    def make():
        table = nn.Embedding(6, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)

        def step(i):
            optimizer.zero_grad()
            table(i).square().sum().backward()
            optimizer.step()
            return table.weight.detach().clone()

        return step

    try:
        check(make, [torch.tensor([0, 2]), torch.tensor([5, 2]), torch.tensor([1, 1])], 3)
    except tracehost.Error as error:
        assert "test_converted_libraries.py" in str(error)  # noqa: PT017 (rejected with its line, or right)


def test_lbfgs_is_rejected_by_name():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([w])

    def body(x):
        def closure():
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    with pytest.raises(
        tracehost.TraceError, match=r"the body runs torch\.optim\.LBFGS at test_conv"
    ):
        tracehost.function(body)(torch.ones(2))


# ---- torch.distributions

DISTRIBUTIONS = {
    "Bernoulli": lambda a: D.Bernoulli(logits=a),
    "Beta": lambda a: D.Beta(a.abs() + 1, a.abs() + 2),
    "Binomial": lambda a: D.Binomial(5, logits=a),
    "Categorical": lambda a: D.Categorical(logits=a),
    "Cauchy": lambda a: D.Cauchy(a, a.abs() + 1),
    "Chi2": lambda a: D.Chi2(a.abs() + 1),
    "ContinuousBernoulli": lambda a: D.ContinuousBernoulli(logits=a),
    "Dirichlet": lambda a: D.Dirichlet(a.abs() + 0.5),
    "Exponential": lambda a: D.Exponential(a.abs() + 0.5),
    "FisherSnedecor": lambda a: D.FisherSnedecor(a.abs() + 1, a.abs() + 2),
    "Gamma": lambda a: D.Gamma(a.abs() + 1, a.abs() + 1),
    "GeneralizedPareto": lambda a: D.GeneralizedPareto(a, a.abs() + 1, 0.1),
    "Geometric": lambda a: D.Geometric(logits=a),
    "Gumbel": lambda a: D.Gumbel(a, a.abs() + 1),
    "HalfCauchy": lambda a: D.HalfCauchy(a.abs() + 1),
    "HalfNormal": lambda a: D.HalfNormal(a.abs() + 1),
    "Independent": lambda a: D.Independent(D.Normal(a, a.abs() + 1), 1),
    "InverseGamma": lambda a: D.InverseGamma(a.abs() + 1, a.abs() + 1),
    "Kumaraswamy": lambda a: D.Kumaraswamy(a.abs() + 1, a.abs() + 1),
    "LKJCholesky": lambda a: D.LKJCholesky(3, a.abs().sum() + 1),
    "Laplace": lambda a: D.Laplace(a, a.abs() + 1),
    "LogisticNormal": lambda a: D.LogisticNormal(a, a.abs() + 1),
    "LogNormal": lambda a: D.LogNormal(a, a.abs() + 1),
    "LowRankMultivariateNormal": lambda a: D.LowRankMultivariateNormal(
        a, a.abs().view(3, 1) + 0.1, a.abs() + 1
    ),
    "MixtureSameFamily": lambda a: D.MixtureSameFamily(
        D.Categorical(logits=a), D.Normal(a, a.abs() + 1)
    ),
    "Multinomial": lambda a: D.Multinomial(4, logits=a),
    "MultivariateNormal": lambda a: D.MultivariateNormal(a, torch.diag(a.abs() + 1)),
    "NegativeBinomial": lambda a: D.NegativeBinomial(5.0, logits=a),
    "Normal": lambda a: D.Normal(a, a.abs() + 1),
    "OneHotCategorical": lambda a: D.OneHotCategorical(logits=a),
    "OneHotCategoricalStraightThrough": lambda a: D.OneHotCategoricalStraightThrough(logits=a),
    "Pareto": lambda a: D.Pareto(a.abs() + 1, a.abs() + 1),
    "Poisson": lambda a: D.Poisson(a.abs() + 1),
    "RelaxedBernoulli": lambda a: D.RelaxedBernoulli(a.abs().sum() + 1, logits=a),
    "RelaxedOneHotCategorical": lambda a: D.RelaxedOneHotCategorical(a.abs().sum() + 1, logits=a),
    "StudentT": lambda a: D.StudentT(a.abs() + 1),
    "TransformedDistribution": lambda a: D.TransformedDistribution(
        D.Normal(a, a.abs() + 1), [D.transforms.SigmoidTransform()]
    ),
    "Uniform": lambda a: D.Uniform(a, a + 1.5),
    "VonMises": lambda a: D.VonMises(a, a.abs() + 1),
    "Weibull": lambda a: D.Weibull(a.abs() + 1, a.abs() + 1),
    "Wishart": lambda a: D.Wishart(a.abs().sum() + 3, torch.eye(3) * (a.abs().sum() + 1)),
    "Wishart of a batch": lambda a: D.Wishart(a.abs() + 3, torch.eye(2).expand(3, 2, 2) * 1.5),
}
PARAMETERS = [torch.tensor([0.5, 1.0, 2.0]) * (k + 1) / 2 - 0.7 for k in range(4)]


def test_every_class_of_distributions_is_here():
    abstract = {"Distribution", "ExponentialFamily"}
    classes = {
        name
        for name in D.__all__
        if isinstance(kind := getattr(D, name), type) and issubclass(kind, D.Distribution)
    }
    assert classes - abstract == {name.partition(" ")[0] for name in DISTRIBUTIONS}


def has_entropy(name):
    try:
        DISTRIBUTIONS[name](PARAMETERS[0]).entropy()
    except NotImplementedError:
        return False
    return True


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution(name):
    def body(a):
        distribution = DISTRIBUTIONS[name](a)
        sample = distribution.sample()
        return sample, distribution.log_prob(sample), distribution.entropy() if entropy else None

    entropy = has_entropy(name)
    # It warns in a side of an `if`, in each call: no graph does so.
    check(lambda: body, PARAMETERS, 4 if name.startswith("Wishart") else 1)


def test_wrong_parameters_of_a_distribution_raise_as_in_eager():
    # torch.compile switches the checks off for the whole process.
    f = tracehost.function(lambda a: D.Normal(a, a, validate_args=True).log_prob(a))
    with assert_traces(f, 1):
        f(torch.ones(3))
        with pytest.raises(ValueError, match="Expected parameter scale"):
            f(-torch.ones(3))


# ---- torch.nn, torch.amp

X = [torch.randn(3, 4, generator=torch.Generator().manual_seed(k)) for k in range(5)]


def batch_norm():
    norm = nn.BatchNorm1d(4, momentum=None)
    return lambda x: (norm(x), norm.running_mean.clone(), norm.num_batches_tracked.clone())


def clipped(clip):
    def make():
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            clip(net.parameters())
            optimizer.step()
            return net.weight.detach().clone()

        return step

    return make


def test_adaptive_softmax():
    """Whether a cluster has rows decides what runs, and whether it has one row the dimensions of squeeze. The rows of
    all are compared with the batch."""
    random = torch.Generator().manual_seed(0)
    module = nn.AdaptiveLogSoftmaxWithLoss(4, 12, [3, 6])
    f = tracehost.function(module)
    with assert_traces(f, 9):
        for _ in range(20):
            x, target = (
                torch.randn(3, 4, generator=random),
                torch.randint(12, (3,), generator=random),
            )
            torch.testing.assert_close(f(x, target), module(x, target))
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 11\]"):
        f(X[0], torch.tensor([1, 2, 99]))


def test_batch_norm_with_a_cumulative_average():
    check(batch_norm, X, 1)


@pytest.mark.parametrize(
    "clip",
    [
        lambda p: nn.utils.clip_grad_norm_(p, 1.0),
        lambda p: nn.utils.clip_grad_norm_(p, 0.1, norm_type=1.0, foreach=False),
        lambda p: nn.utils.clip_grad_value_(p, 0.1),
    ],
)
def test_clipping(clip):
    check(clipped(clip), X, 2)


@pytest.mark.parametrize(
    "module, converted",
    [("timm.optim.madgrad", True), ("torchvision.transforms.v2._color", True), ("timm.models.vit", False)],
)  # fmt: skip
def test_other_packages(module, converted):
    """tests/programs has rows of them, with the packages themselves."""
    function = installed("def f(): pass", module)["f"]
    assert (left_alone(function) is None) == converted
