"""Random ops stay random, and advance the generator as eager does, used or not."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from core_support import check
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.rand(4, 3)

DRAWS = {
    "rand": lambda x: torch.rand(3) * x,
    "randn": lambda x: torch.randn(4, 3) + x,
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x) * x,
    "randint": lambda x: torch.randint(0, 10, (3,)),
    "randint_like": lambda x: torch.randint_like(x, 5),
    "randperm": lambda x: x[torch.randperm(4)],
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli p": lambda x: torch.bernoulli(x.detach(), 0.3),
    "multinomial": lambda x: torch.multinomial(x, 2),
    "normal": lambda x: torch.normal(x, 2.0),
    "poisson": lambda x: torch.poisson(x * 3),
    "normal_": lambda x: torch.empty(3).normal_(),
    "uniform_": lambda x: (x * 1).uniform_(-1, 1),
    "exponential_": lambda x: torch.zeros(3).exponential_(),
    "random_": lambda x: torch.zeros(3).random_(10),
    "init": lambda x: nn.init.xavier_uniform_(torch.empty(3, 3)),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout_": lambda x: F.dropout(x * 1, 0.5, inplace=True),
    "dropout2d": lambda x: F.dropout2d(x[None, :, :, None], 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, training=True),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "distribution": lambda x: torch.distributions.Normal(x, 1.0, validate_args=False).rsample(),
    "several": lambda x: (torch.rand(2), F.dropout(x), torch.randn(1), torch.rand(2)),
    "in order": lambda x: torch.rand(1) - torch.rand(1) * torch.rand(1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_trace_hit_and_eager_draw_the_same(name):
    check(DRAWS[name], X.clone().requires_grad_(), calls=4)


@pytest.mark.parametrize("name", DRAWS)
def test_hits_draw_anew(name):
    f = tracehost.function(DRAWS[name])
    torch.manual_seed(0)
    states = []
    with assert_traces(f, 1):
        for _ in range(4):
            f(X)
            states.append(torch.get_rng_state())
        assert not any(torch.equal(a, b) for a, b in zip(states, states[1:]))


UNUSED = {
    "rand": lambda x: torch.rand(5),
    "dropout": lambda x: F.dropout(x, 0.5),
    "in a tuple": lambda x: (torch.randn(2), torch.randperm(3)),
    "shape only": lambda x: torch.rand(5).shape,
    "computed with": lambda x: torch.rand(5) * 2 + 1,
    "view": lambda x: torch.rand(4)[1:],
    "in place": lambda x: torch.empty(3).normal_(),
    "bernoulli": lambda x: torch.bernoulli(x),
}


@pytest.mark.parametrize("name", UNUSED)
def test_an_unused_draw_advances_the_generator(name):
    def body(x):
        UNUSED[name](x)
        y = torch.rand(2)
        UNUSED[name](x)
        return y, x * 2

    check(body, X, calls=4)


def test_a_body_that_only_draws():
    def body():
        torch.rand(3)

    f = tracehost.function(body)
    torch.manual_seed(0)
    for _ in range(3):
        assert f() is None
    ours = torch.rand(1)
    torch.manual_seed(0)
    for _ in range(3):
        body()
    assert torch.equal(ours, torch.rand(1))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_modules(training):
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.4), nn.Linear(8, 2)).train(training)
    check(net, X.clone().requires_grad_(), calls=4, extra=net.parameters())


def test_a_generator_of_the_users_own():
    generator = torch.Generator()

    def body(x, g):
        return torch.rand(3, generator=g) * x, torch.randn(2, generator=generator)

    mine = torch.Generator()
    f = tracehost.function(body)
    for seed in range(3):
        results = []
        for call in (f, body):
            mine.manual_seed(seed)
            generator.manual_seed(seed + 10)
            results.append([*call(X, mine), *call(X, mine), mine.get_state()])
        for a, b in zip(*results):
            assert torch.equal(a, b), seed
    other = torch.Generator().manual_seed(5)
    got = f(X, other)[0]
    assert torch.equal(got, torch.rand(3, generator=other.manual_seed(5)) * X)


SEEDS = {
    "manual_seed": lambda: torch.manual_seed(7),
    "seed": lambda: torch.seed(),
    "set_state": lambda: torch.set_rng_state(torch.get_rng_state()),
    "Generator.manual_seed": lambda: torch.Generator().manual_seed(3),
}


@pytest.mark.parametrize("name", SEEDS)
def test_seeding_in_the_body_is_rejected_with_the_line(name):
    def body(x):
        SEEDS[name]()
        return torch.rand(3)

    with pytest.raises(tracehost.TraceError) as error:
        tracehost.function(body)(X)
    line = SEEDS[name].__code__.co_firstlineno
    assert str(error.value) == (
        f"the body sets a random generator's state (Generator.{name.split('.')[-1]}) at "
        f"test_core_random.py:{line}, which is not recorded in a graph. Seed outside of the function."
    )


def test_the_generators_state_is_no_constant_of_a_graph():
    with pytest.raises(tracehost.CaptureError):
        tracehost.function(lambda: torch.get_rng_state())()


def test_the_state_of_the_generator_may_be_set_between_calls():
    f = tracehost.function(lambda x: torch.rand(3))
    f(X)
    state = torch.get_rng_state()
    a = f(X)
    torch.set_rng_state(state)
    assert torch.equal(f(X), a)
    with torch.random.fork_rng():
        f(X)
    torch.set_rng_state(state)
    assert torch.equal(f(X), a)
