"""Tapes and views: what a block gives, what lies elsewhere in its memory, what a training step gives; beside eager."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tape_facts import facts
from torch.nn.attention import SDPBackend, sdpa_kernel

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def outcome(function, *inputs):
    try:
        return facts(function(*inputs))
    except RuntimeError as error:
        return str(error).partition("\n")[0]


def by_sign(*signs):
    return [(torch.arange(1.0, 17.0).view(4, 4) * sign,) for sign in signs]


@program
def gradient_in_another_dtype():
    w = torch.ones(4, 2, requires_grad=True)

    def body(x):
        w.grad = None
        (w * x).sum().backward()
        return torch.view_as_complex(w.grad)[1:], torch.fft.fft(x[0]).imag[1:]

    return body, [(torch.arange(8.0).view(4, 2) + i,) for i in range(5)]


@program
def views_that_count_their_own_writes():
    def body(x):
        y = x * 2
        parts = torch.unsafe_chunk(y, 2)[0], torch.ops.aten._unsafe_view(y, [2, 2])
        return [part.add_(1) for part in parts], y

    return body, [(torch.arange(4.0) + i,) for i in range(5)]


@program
def strided_over_what_a_branch_gives():
    def body(x):
        z = (x * 2)[:3] if x.sum() > 0 else x[:3] * 1
        return z.as_strided((16,), (1,), 0) * 2

    return body, by_sign(1, 1, 1, -1, -1)


@program
def strided_over_a_view_by_a_number():
    def body(x, n):
        return x[n:].as_strided((2,), (1,), 0) * 2, torch.as_strided_copy(x[n:], (2,), (1,), 0)

    return body, [(torch.arange(6.0) + i, torch.tensor(2)) for i in range(5)]


@program
def complex_view_at_an_odd_place():
    def body(x, k):
        return torch.view_as_complex(x.narrow(0, k.sum().item(), 4).view(2, 2)).abs()

    return body, [(torch.arange(8.0), torch.tensor([n])) for n in (2, 2, 2, 2, 1)]


@program
def base_of_what_a_branch_gives():
    def body(x):
        return (x * 2)[:3] if x.sum() > 0 else x[:3] * 1

    return body, by_sign(1, 1, 1, -1, -1, 1)


@program
def composite_that_ends_in_a_view():
    def body(x):
        return torch.einsum("ij->ji", x * 1) if x.sum() > 0 else x * 2

    return body, by_sign(-1, -1, -1, 1, -1)


@program
def conjugate_on_one_side():
    def body(x):
        z = (x * 3).conj() if x.real.sum() > 0 else x * 1
        return z * 2

    return body, [(torch.complex(torch.ones(2) * s, torch.ones(2)),) for s in (-1, -1, -1, 1, -1)]


@program
def gaps_on_one_side():
    def body(x):
        z = x[:, :2] if x.sum() > 0 else x[:, :2] * 1
        return z.view(8) * 2

    return body, by_sign(-1, -1, -1, 1, -1)


@program
def expanded_by_a_branch():
    def body(x):
        z = x[:1].expand(4, 4) if x.sum() > 0 else x[1:2].expand(4, 4)
        return z.t() + 0

    return body, by_sign(1, 1, 1, -1)


@program
def quantized():
    def body(x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()

    return body, by_sign(1, 1, 1, 1)


@program
def many_views_of_one_list():
    return lambda x: x.unbind(1), by_sign(1, 2, 3, 4)


@program
def row_by_a_number_beside_gradients():
    w = torch.ones(3, requires_grad=True)

    def body(x, i):
        (g,) = torch.autograd.grad((w * 2).sum(), w)
        return x[i], g

    return body, [(torch.arange(12.0).view(4, 3), torch.tensor(i)) for i in (0, 1, 2, 2, 1, 3)]


@program
def view_of_a_parameter_without_gradients():
    w = torch.ones(4, requires_grad=True)

    def body(x):
        (g,) = torch.autograd.grad((w * x).sum(), w)
        with torch.no_grad():
            v = w[1:]
        return v, g

    return body, by_sign(1, 1, 1, 1)


@program
def chunks_of_a_gradient():
    w = torch.ones(4, requires_grad=True)
    return lambda x: torch.autograd.grad((w * x).sum(), w)[0].chunk(2), by_sign(1, 1, 1, 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    body, calls = PROGRAMS[name]()
    f = tracehost.function(body, optimize="exact")
    for inputs in calls:
        expected = outcome(body, *inputs)
        got = outcome(f, *inputs)
        assert got == expected


@pytest.mark.parametrize("body", ["chunk", "no_grad"])
def test_writes_that_eager_forbids(body):
    w = torch.ones(4, requires_grad=True)

    def chunk(x):
        return torch.autograd.grad((w * x).sum(), w)[0].chunk(2)[0]

    def no_grad(x):
        torch.autograd.grad((w * x).sum(), w)
        with torch.no_grad():
            return x[1:]

    def write(view):
        return view.mul_(torch.ones(view.shape, requires_grad=True))

    eager = locals()[body]
    f = tracehost.function(eager, optimize="exact")
    for _ in range(4):
        assert outcome(write, f(torch.ones(4))) == outcome(write, eager(torch.ones(4)))


def test_attention_by_the_setting_of_the_call():
    torch.manual_seed(0)
    q = torch.randn(1, 2, 5, 8, requires_grad=True)

    def body(k, v):
        (g,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).square().sum(), q)
        return g

    f = tracehost.function(body, optimize="exact")
    for i in range(9):
        k, v = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
        with sdpa_kernel(SDPBackend.MATH if i > 3 else SDPBackend.FLASH_ATTENTION):
            assert torch.equal(f(k, v), body(k, v))


def test_the_dtype_of_a_gradient():
    def twin():
        w = torch.ones(3, requires_grad=True)

        def body(x):
            w.grad = None
            (w * x).sum().backward()
            return x * 2

        return w, body

    (w, eager), (v, ours) = twin(), twin()
    f = tracehost.function(ours, optimize="exact")
    for i in range(6):
        if i == 4:
            w.grad = v.grad = None
            w.grad_dtype = v.grad_dtype = torch.float64
        eager(torch.ones(3))
        f(torch.ones(3))
        assert v.grad.dtype == w.grad.dtype


def test_many_inputs_that_are_written():
    def body(*tensors):
        for t in tensors:
            t.add_(1)
        return tensors[0] * 2

    f = tracehost.function(body, optimize="exact")
    for _ in range(4):
        tensors = [torch.zeros(2) for _ in range(40)]
        assert f(*tensors).tolist() == [2, 2]
        assert all(t.tolist() == [1, 1] for t in tensors)
    ours, eager = torch.zeros(42), torch.zeros(42)
    got = f(*(ours[i : i + 2] for i in range(40)))
    expected = body(*(eager[i : i + 2] for i in range(40)))
    assert (got.tolist(), ours.tolist()) == (expected.tolist(), eager.tolist())


def detached_and_view(x):
    d = x.detach()
    return d, d.T


def two_views_of_detached(x):
    d = (x * 2).detach()
    return d.T, d[0]


def view_of_a_view_of_detached(x):
    d = x[0].detach()
    return d[0], d[1:][0]


def detached_twice(x):
    d = x.detach()
    return d[0].detach()[None], d[1]


def equal_views(x):
    d = x.detach()
    return d.T, d.T


def bases(outputs):
    """Of each output: the number of the first output that has its base, or is that base."""
    of = [t._base if t._is_view() else t for t in outputs]
    return [next(j for j, other in enumerate(of) if other is base) for base in of]


@pytest.mark.parametrize(
    "body",
    [
        detached_and_view,
        two_views_of_detached,
        view_of_a_view_of_detached,
        detached_twice,
        equal_views,
    ],
)
def test_views_of_a_detached_tensor_share_its_base(body):
    """A gradient that reaches one of them reaches the other."""
    f = tracehost.function(body, optimize="exact")
    for call in range(6):
        x = torch.full((2, 3), float(call))
        outputs, eager = f(x), body(x)
        assert [t.tolist() for t in outputs] == [t.tolist() for t in eager]
        assert [t._is_view() for t in outputs] == [t._is_view() for t in eager]
        assert bases(outputs) == bases(eager)
    assert f.specializations()[0].runs_by.startswith("a tape")
