"""Numbers that code reads where autograph does not convert it: as arguments of ops, of constants alone, as ints."""

import collections
import math

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def check(body, inputs, traces):
    f = tracehost.function(body, autograph=False)
    for number, x in enumerate(inputs):
        torch.manual_seed(number)
        expected = body(x)
        torch.manual_seed(number)
        got = f(x)
        assert type(got) is type(expected)
        assert torch.equal(got, expected) if isinstance(got, torch.Tensor) else got == expected
    assert f.tracing_count() == traces, f.report()
    return f


# ---- floats of tensors as arguments

BOUNDS = torch.tensor([0.25, 0.75])
OF_TENSORS = {
    "uniform_": lambda x: torch.empty(3).uniform_(BOUNDS[0], BOUNDS[1]) + x,
    "of the argument": lambda x: torch.empty(3).uniform_(-x[0].abs(), x[1].abs() + 1),
    "normal_": lambda x: torch.empty(3).normal_(x[0], x[1].abs() + 0.5),
    "exponential_": lambda x: torch.empty(3).exponential_(x[0].abs() + 0.5),
    "dropout": lambda x: torch.nn.functional.dropout(x, BOUNDS[0]),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (3,), eps=x[0].abs()),
    "a Scalar": lambda x: torch.add(x, x, alpha=x[0]),
    "a Scalar beside an equal number": lambda x: torch.add(x, 0.25, alpha=BOUNDS[0]),
    "two Scalars": lambda x: torch.addmm(x, x.view(3, 1), x.view(1, 3), beta=x[0], alpha=x[1]),
    "full": lambda x: torch.full((2,), x[1]),
}
X = [torch.randn(3, generator=torch.Generator().manual_seed(k)) for k in range(4)]


@pytest.mark.parametrize("name", OF_TENSORS)
def test_an_op_takes_a_float_from_a_tensor(name):
    check(OF_TENSORS[name], X, 1)


def test_a_scalar_may_change():
    alpha = torch.tensor(0.25)
    f = tracehost.function(lambda x: torch.add(x, 0.25, alpha=alpha), autograph=False)
    with assert_traces(f, 1):
        for value in (0.25, 2.0, 0.5):
            alpha.fill_(value)
            assert torch.equal(f(torch.ones(3)), torch.ones(3) + 0.25 * value)


def test_a_captured_bound_may_change():
    bounds = torch.tensor([0.0, 1.0])
    f = tracehost.function(lambda x: torch.empty(3).uniform_(bounds[0], bounds[1]) + x)
    with assert_traces(f, 1):
        for most in (1.0, 5.0, 2.0):
            bounds[1] = most
            torch.manual_seed(0)
            expected = torch.empty(3).uniform_(0.0, most) + 1
            torch.manual_seed(0)
            assert torch.equal(f(torch.ones(3)), expected)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * float(x.sum()),
        lambda x: x * math.sqrt(x.square().sum()),
        lambda x: (x, float(x.sum())),
        lambda x: torch.empty(3).uniform_(0.0, float(x.square().sum())),
        lambda x: torch.empty(3).uniform_(x[0], x[0]),  # the two can't be distinguished
    ],
)
def test_a_float_that_python_gets_is_rejected_with_its_line(body):
    line = body.__code__.co_firstlineno
    message = (
        rf"the body reads the value of .*a traced tensor \(aten::item\) at test_numbers_in_libraries\.py:{line}, "
        "which a graph can't repeat"
    )
    with pytest.raises(tracehost.ValueReadError, match=message):
        tracehost.function(body, autograph=False)(X[0])


# ---- of constants alone


def scale_of(x):
    return x * 2 ** float(torch.tensor(0.26).log2().round())


def level(x):
    lowest = -torch.log2(torch.tensor(0.25, dtype=torch.float32)).item()
    return x * [1.0, 2.0, 4.0][int(lowest)]


def compared(x):
    return x + 1 if torch.linspace(0, 1, 3)[1].item() > 0.4 else x


@pytest.mark.parametrize("body", [scale_of, level, compared])
def test_a_float_of_constants_is_the_same_at_each_call(body):
    check(body, X, 1)


def test_a_float_that_is_drawn_is_none_of_constants():
    with pytest.raises(tracehost.ValueReadError, match="aten::item"):
        tracehost.function(lambda x: x * float(torch.rand(1)), autograph=False)(X[0])


# ---- ints of floats


def chosen(x):
    index = int(torch.empty(1).uniform_(0.0, 3.0).item())
    return x * [1.0, 10.0, 100.0][index]


def test_the_int_of_a_float_is_checked():
    """As torchvision chooses a size: another int is another graph."""
    torch.manual_seed(0)
    f = tracehost.function(chosen, autograph=False)
    with assert_traces(f, 3):
        for number in range(20):
            torch.manual_seed(number)
            expected = chosen(X[0])
            torch.manual_seed(number)
            assert torch.equal(f(X[0]), expected)


def test_an_int_of_a_float_raises_what_python_raises():
    def body(x):
        return x * int(x.sum().item())

    f = tracehost.function(body, autograph=False)
    assert torch.equal(f(torch.full((3,), 0.5)), torch.full((3,), 0.5))
    with pytest.raises(OverflowError, match="cannot convert float infinity to integer"):
        f(torch.full((3,), math.inf))


# ---- math.pow


def test_a_power_of_a_counter():
    class Decay:
        def __init__(self):
            self.step = 0

        def rate(self, x):
            self.step += 1
            return x * (1.0 - math.pow(self.step, -0.8))

    ours, eager = Decay(), Decay()
    f = tracehost.function(ours.rate)
    with assert_traces(f, 2):
        for x in X * 3:
            assert torch.equal(f(x), eager.rate(x))


# ---- code that takes the value of an int


def of_broadcast_shapes(x):
    shape = torch.broadcast_shapes((x.numel() if x.dim() else x.item(), 1), (1, 3))
    return x * shape[0] + shape[1]


OF_VALUES = {
    "maxlen": lambda x: x + collections.deque([4, 5, 6], maxlen=x.item())[0],
    "maxlen by place": lambda x: x + len(collections.deque([4, 5, 6], x.item())),
    "numbers in a deque": lambda x: x + collections.deque([x.item(), 5], maxlen=2)[0],
    "broadcast_shapes": of_broadcast_shapes,
    "pow": lambda x: x + pow(x.item(), 2, 5) + pow(7, 2, x.item()),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_the_value_of_an_int(name):
    f = tracehost.function(OF_VALUES[name])
    with assert_traces(f, (1 if name == "numbers in a deque" else 3)):
        for k in (1, 2, 3, 2):
            x = torch.tensor(k)
            assert torch.equal(f(x), OF_VALUES[name](x))


def test_the_power_of_a_size_with_a_modulus():
    def body(x):
        return x * pow(x.shape[0], 2, 5)

    f = tracehost.function(body, reduce_retracing=True)
    for n in (1, 2, 3, 4, 3):
        assert torch.equal(f(torch.ones(n)), body(torch.ones(n)))


class Policy:
    spread = 1.0


DISTRIBUTIONS = {
    "normal": lambda x, k: torch.distributions.Normal(x, k.item()).log_prob(x * 2),
    "of two numbers": lambda x, k: torch.distributions.Normal(0, k.item()).log_prob(x),
    "bernoulli": lambda x, k: torch.distributions.Bernoulli(k.item() / 10).log_prob(x.round()),
    "exponential": lambda x, k: torch.distributions.Exponential(k.item()).log_prob(x),
    "beta": lambda x, k: torch.distributions.Beta(k.item(), 2.0).log_prob(x),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_of_numbers(name):
    f = tracehost.function(DISTRIBUTIONS[name])
    with assert_traces(f, 1):
        for k in (1.0, 2.0, 3.0, 1.5):
            given = torch.tensor([0.3, 0.6]), torch.tensor(k)
            assert torch.equal(f(*given), DISTRIBUTIONS[name](*given))


def test_a_distribution_with_a_spread_that_decays():
    def body(x):
        policy.spread *= 0.9
        return torch.distributions.Normal(x, policy.spread).log_prob(x * 2)

    f = tracehost.function(body)
    policy, twin = Policy(), Policy()
    for i in range(6):
        got = f(torch.ones(2) * i)
        policy, twin = twin, policy
        assert torch.equal(got, body(torch.ones(2) * i))
        policy, twin = twin, policy
        assert policy.spread == twin.spread
