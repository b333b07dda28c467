"""What a device has to do with: signatures, captures, factories, random numbers, autocast, control flow, errors."""

import pytest
import torch
import tracehost
from core_support import assert_same
from devices import DEVICES
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.parametrize("device", DEVICES)


def inputs(device, count=3):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, 6, generator=generator).to(device) for _ in range(count)]


def check(body, device, traces=1, calls=None):
    """The traced call and two hits, against eager."""
    f = tracehost.function(body)
    with assert_traces(f, traces):
        for x in calls or inputs(device):
            assert_same(f(x), body(x))
    return f


def test_a_hit_gives_what_eager_gives(device):
    check(lambda x: ((x * 2 + 1).softmax(-1) @ x.T, x.sum(), x.argmax(1)), device)


def test_the_device_is_part_of_the_signature(device):
    f = tracehost.function(lambda x: x * 2)
    with assert_traces(f, len({"cpu", device, "meta"})):
        for place in ("cpu", device, "meta"):
            assert f(torch.ones(3, device=place)).device.type == place


def test_a_module_that_moves_is_one_more_trace(device):
    model = nn.Linear(6, 2)
    f = tracehost.function(model)
    with assert_traces(f, len({"cpu", device})):
        for place in ("cpu", device, "cpu"):
            model.to(place)
            x = torch.ones(4, 6, device=place)
            assert_same(f(x), model(x))


def test_a_capture_is_updated_in_place(device):
    scale = torch.full((6,), 2.0, device=device)
    f = tracehost.function(lambda x: x * scale)
    with assert_traces(f, 1):
        for i, x in enumerate(inputs(device)):
            scale.fill_(i + 1.0)
            assert_same(f(x), x * (i + 1.0))


def test_factories_make_tensors_on_the_device(device):
    def body(x):
        n = x.shape[0]
        return (
            x + torch.zeros(n, 6, device=x.device),
            torch.arange(n, device=x.device),
            torch.ones_like(x),
            x.new_full((2,), 3.0),
            torch.tensor([1.0, 2.0], device=x.device),
        )

    check(body, device)


def test_the_default_device_is_part_of_the_signature(device):
    f = tracehost.function(lambda x: torch.ones(3))
    x = torch.ones(2)
    with assert_traces(f, len({"cpu", device})):
        assert f(x).device.type == "cpu"
        with torch.device(device):
            assert f(x).device.type == device


def test_random_ops_draw_from_the_device_s_generator(device):
    def body(x):
        return torch.dropout(x, 0.5, True) + torch.rand_like(x)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in inputs(device):
            torch.manual_seed(5)
            got = f(x), torch.rand(3, device=device)
            torch.manual_seed(5)
            assert_same(got, (body(x), torch.rand(3, device=device)))


def test_a_generator_of_the_device(device):
    generator = torch.Generator(device=device)

    def body(x):
        return x + torch.rand(4, 6, generator=generator, device=x.device)

    f = tracehost.function(body)
    for x in inputs(device):
        generator.manual_seed(7)
        got = f(x)
        generator.manual_seed(7)
        assert_same(got, body(x))


def test_autocast_of_the_device(device):
    weight = torch.randn(6, 5, device=device)

    def body(x):
        with torch.autocast(device, torch.bfloat16):
            y = x @ weight
        return y, y.float() @ weight.T

    check(body, device)
    f = tracehost.function(lambda x: x @ weight)
    with assert_traces(f, 1):
        for x in inputs(device):
            with torch.autocast(device, torch.bfloat16):
                assert_same(f(x), x @ weight)


def test_gradients_flow_through_a_hit(device):
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    f = tracehost.function(lambda x: model(x).square().mean())
    with assert_traces(f, 1):
        for x in inputs(device):
            got = torch.autograd.grad(f(x), list(model.parameters()))
            assert_same(
                got, torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
            )


def test_branches_and_loops_on_tensors(device):
    def body(x):
        if x.sum() > 0:
            x = x * 2
        else:
            x = x - 1
        n = torch.zeros((), device=x.device)
        while n < 3:
            x = x + n
            n = n + 1
        return x, n

    check(body, device, calls=[*inputs(device), -inputs(device)[0].abs()])


def test_writes_to_arguments_and_views(device):
    def body(x):
        x[0].mul_(3)
        x[:, 1] = 5
        return x.view(-1)[::2]

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in inputs(device):
            a, b = x.clone(), x.clone()
            assert_same((f(a), a), (body(b), b))


def test_sizes_that_may_be_any(device):
    f = tracehost.function(
        lambda x: (x - x.mean(0)) / x.shape[0],
        input_signature=[tracehost.TensorSpec([None, 6], device=device)],
    )
    with assert_traces(f, 1):
        for rows in (1, 3, 8):
            x = torch.randn(rows, 6, device=device)
            assert_same(f(x), (x - x.mean(0)) / rows)


def test_a_read_of_a_value_is_rejected(device):
    f = tracehost.function(lambda x: x * float(x.sum()), autograph=False)
    with pytest.raises(tracehost.ValueReadError, match=r"test_devices.py:\d+"):
        f(inputs(device)[0])


def test_an_op_that_fails_on_a_hit_raises_what_eager_raises(device):
    def body(x):
        return torch.linalg.cholesky(x @ x.T)

    f = tracehost.function(body)
    good = torch.eye(3, device=device)
    assert_same(f(good), body(good))
    for call in (f, body):
        with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
            call(torch.zeros(3, 3, device=device))
