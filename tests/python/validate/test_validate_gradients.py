"""validate=: a graph with a backward pass is compared with its body."""

import numpy
import pytest
import torch
import tracehost
from core_support import assert_same
from validate_support import WHAT_TO_DO, Writer, checks, place

pytestmark = pytest.mark.usefixtures("no_warnings")

# ---- backward passes -----------------------------------------------------------------------------


def leaf(*values):
    return torch.tensor(values or (1.0, 1.0), requires_grad=True)


def with_grad(value):
    w = leaf()
    w.grad = torch.full((2,), float(value))
    return w


def penalty(w):
    def body(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad((w * x * x).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return g

    return body


def retained(w):
    def body(x):
        y = w * x
        y.retain_grad()
        (y * y).sum().backward()
        return y

    return body


def assigned(w):
    def body(x):
        w.grad = x * 2
        with torch.no_grad():
            w.sub_(w.grad)
        w.grad = None
        (w * x).sum().backward()

    return body


def accumulated(w):
    def body(x):
        (w * x).sum().backward()
        return w.grad

    return body


def one_step(optimizer):
    def make(w):
        stepping = optimizer([w])

        def body(x):
            stepping.zero_grad()
            loss = ((w * x).sum() - 3) ** 2
            loss.backward()
            torch.nn.utils.clip_grad_norm_([w], 1.0)
            stepping.step()
            return loss

        return body

    return make


STEPS = {
    "gradient penalty": (leaf, penalty),
    "retain_grad": (leaf, retained),
    "assigned": (lambda: with_grad(1), assigned),
    "accumulated": (lambda: with_grad(5), accumulated),
    "SGD": (leaf, one_step(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))),
    "Adam": (lambda: with_grad(2), one_step(lambda p: torch.optim.Adam(p, 0.1))),
    "fused AdamW": (leaf, one_step(lambda p: torch.optim.AdamW(p, 0.1, fused=True))),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("validate", ["first", 1])
def test_a_backward_pass_is_checked_and_leaves_nothing(name, validate):
    make_leaf, make_body = STEPS[name]
    left = []
    for decorate in (lambda body: body, tracehost.function(validate=validate)):
        w = make_leaf()
        f = decorate(make_body(w))
        results = [f(torch.tensor([1.0, k])) for k in (2.0, 3.0, 4.0, 5.0)]
        left.append((results, w.detach(), w.grad))
    assert_same(*left)
    checked, unchecked, wrong = checks(f)
    assert checked >= (1 if validate == "first" else 3) and (unchecked, wrong) == (0, 0)


def test_a_gradient_that_is_not_the_body_s_is_found():
    array = numpy.ones(2, dtype=numpy.float32)
    shared, w = torch.from_numpy(array), leaf()
    writer = type("Writer", (Writer,), {"array": array})

    @tracehost.function
    def f(x):
        (w * shared).sum().backward()
        writer()

    with pytest.warns(tracehost.TraceWarning) as caught:
        f(torch.ones(2))
    assert str(caught[0].message) == (
        f"f ({place(f, 0)}): its graph would not do what the body did: what is left in 'nonlocal w.grad', "
        f"element (1,): 4.0 in the graph, 1.0 in the body (tracehost::backward at {place(f, 2)}). {WHAT_TO_DO}"
    )
    assert w.grad.tolist() == [1.0, 1.0]
    f(torch.ones(2))
    assert w.grad.tolist() == [2.0, 5.0] and checks(f) == (1, 0, 1)


def hooked():
    w, calls = leaf(), []
    w.register_hook(calls.append)
    return lambda x: (w * x).sum().backward(), torch.ones(2), lambda: len(calls)


def hooked_after():
    w, calls = leaf(), []
    w.register_post_accumulate_grad_hook(calls.append)
    return lambda x: (w * x).sum().backward(), torch.ones(2), lambda: len(calls)


def begun_outside():
    w, calls = leaf(), []
    w.register_hook(calls.append)
    return lambda x: (x * 2).sum().backward(), w * 3, lambda: len(calls)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (hooked, "'nonlocal w' has hooks on its gradient"),
        (hooked_after, "'nonlocal w' has hooks on its gradient"),
        (begun_outside, "a backward pass may continue into what computed 'x' before the call"),
    ],
)
def test_a_backward_pass_that_reaches_further_is_not_checked(make, why):
    body, x, calls = make()
    f = tracehost.function(body)
    f(x)
    assert calls() == 1
    assert f.stats()["unvalidated_because"] == {why: 1}
    assert f"0 checked, 1 not checked ({why}), 0 wrong" in f.report()
