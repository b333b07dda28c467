"""autograd.grad, backward() and .grad in a body: recorded, and equal to eager at the trace and on hits."""

import pytest
import torch
import tracehost
from core_support import assert_same, place
from devices import DEVICES
from torch.utils.checkpoint import checkpoint
from tracehost.testing import assert_traces

CALLS = 3


def leaf(*values, device="cpu"):
    return torch.tensor(values, device=device, requires_grad=True)


def batches(device="cpu"):
    return [torch.tensor([1.0, 2.0, 3.0], device=device) + i for i in range(CALLS)]


def compare(make, traces=1, device="cpu"):
    """`make()` gives a body and the tensors whose .grad it changes; both ways get the same batches."""
    eager, eagers = make()
    body, leaves = make()
    traced = tracehost.function(body)
    with assert_traces(traced, traces):
        for x in batches(device):
            expected, got = eager(x), traced(x)
            assert_same(got, expected)
            for a, b in zip(leaves, eagers, strict=True):
                assert_same(a.grad, b.grad, ".grad")


@pytest.mark.parametrize("device", DEVICES)
def test_grad_of_captures_and_of_what_is_computed(device):
    def make():
        w, b = leaf(1.0, 2.0, 3.0, device=device), leaf(0.5, device=device)

        def body(x):
            y = w * x + b
            return torch.autograd.grad((y * y).sum(), [w, b, y])

        return body, [w, b]

    compare(make, device=device)


def test_grad_of_arguments_keeps_their_requires_grad():
    def body(x):
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, retain_graph=True)
        return g, h

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(CALLS):
            x = leaf(1.0, 2.0)
            got, expected = f(x), body(x)
            assert_same(got, expected)
            assert got[0].requires_grad and not got[1].requires_grad
            assert_same(
                torch.autograd.grad(got[0].sum(), x), torch.autograd.grad(expected[0].sum(), x)
            )


def test_unused_inputs_and_given_grad_outputs():
    def make():
        w, v = leaf(1.0, 2.0, 3.0), leaf(1.0)

        def body(x):
            return torch.autograd.grad([w * x, w * 2], [w, v], [x, x + 1], allow_unused=True)

        return body, [w, v]

    compare(make)


def test_materialized_gradients_are_zeros():
    def make():
        w, v = leaf(1.0, 2.0, 3.0), leaf(1.0)
        return (lambda x: torch.autograd.grad((w * x).sum(), [w, v], materialize_grads=True)), [
            w,
            v,
        ]

    compare(make)


@pytest.mark.parametrize("device", DEVICES)
def test_backward_accumulates_into_leaves(device):
    def make():
        w = leaf(1.0, 2.0, 3.0, device=device)

        def body(x):
            loss = (w * x).sum()
            loss.backward()
            return loss.detach()

        return body, [w]

    compare(make, device=device)


BACKWARDS = {
    "gradient": lambda y, w: y.backward(torch.ones_like(y)),
    "inputs": lambda y, w: y.sum().backward(inputs=[w]),
    "retain": lambda y, w: (y.sum().backward(retain_graph=True), y.sum().backward()),
    "autograd.backward": lambda y, w: torch.autograd.backward([y.sum(), y.mean()]),
    "two losses": lambda y, w: (y.sum() + y.square().mean()).backward(),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_forms_of_backward(name):
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            y = w * x
            BACKWARDS[name](y, w)
            return w.grad + 0

        return body, [w]

    compare(make)


def test_a_gradient_read_before_is_part_of_the_signature():
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            before = None if w.grad is None else w.grad.clone()
            (w * x).sum().backward()
            return before

        return body, [w]

    compare(make, traces=2)


def test_the_cause_of_the_second_trace_is_named():
    w = leaf(1.0)

    @tracehost.function
    def f(x):
        w.grad = None if w.grad is None else w.grad
        (w * x).sum().backward()

    f(torch.ones(1))
    f(torch.ones(1))
    assert tracehost.events()[-1].causes == (
        "'nonlocal w.grad', which the body reads, was None, is a tensor",
    )


def test_a_gradient_is_set_and_deleted():
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            w.grad = x * 2
            (w * x).sum().backward()
            first = w.grad.clone()
            del w.grad
            (w * x).sum().backward()
            w.grad.mul_(2)
            return first, w.grad is None

        return body, [w]

    compare(make)


def test_a_gradient_of_what_is_computed_is_retained():
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            y = w * x
            y.retain_grad()
            (y * y).sum().backward()
            return y.grad

        return body, [w]

    compare(make)


def test_hooks_run_on_each_hit():
    seen = []
    w = leaf(1.0, 2.0)
    w.register_hook(lambda grad: (seen.append("hook"), grad * 2)[1])
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))

    @tracehost.function
    def f(x):
        (w * x).sum().backward()

    with assert_traces(f, 1):
        for i in range(CALLS):
            f(torch.ones(2))
            assert seen == ["hook", [2.0 * (i + 1)] * 2]
            seen.clear()


def test_a_hook_that_raises_on_a_hit_raises_what_it_raised():
    fails = []

    def hook(grad):
        if fails:
            raise KeyError("from the hook")

    w = leaf(1.0)
    w.register_hook(hook)

    @tracehost.function
    def f(x):
        (w * x).sum().backward()

    with assert_traces(f, 1):
        f(torch.ones(1))
        f(torch.ones(1))
        fails.append(True)
        with pytest.raises(KeyError, match="from the hook"):
            f(torch.ones(1))
        fails.clear()
        w.grad = None
        f(torch.ones(1))
        assert w.grad.item() == 1.0


def test_a_graph_that_is_gone_is_eagers_error_on_a_hit():
    def body(y):
        y.backward()

    f = tracehost.function(body)
    w = leaf(2.0)
    with assert_traces(f, 1):
        f((w * w).sum())
        y = (w * w).sum()
        f(y)
        with pytest.raises(RuntimeError) as expected:
            body(y)
        with pytest.raises(RuntimeError) as error:
            f(y)
        assert str(error.value) == str(expected.value)


def test_an_error_of_the_trace_is_eagers_and_may_not_be_caught():
    def twice(x):
        y = (x * x).sum()
        y.backward()
        y.backward()

    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        tracehost.function(twice)(leaf(1.0))

    def caught(x):
        try:
            twice(x)
        except RuntimeError:
            return x * 2

    with pytest.raises(tracehost.TraceError, match="the body caught that and continued"):
        tracehost.function(caught)(leaf(1.0))


def test_a_checkpoint_in_the_body():
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            y = checkpoint(lambda x: torch.tanh(w * x), x, use_reentrant=False)
            (y * y).sum().backward()
            return y.detach()

        return body, [w]

    compare(make)


def test_any_batch_size_of_a_declared_step():
    def make():
        w = leaf(1.0, 2.0, 3.0)

        def body(x):
            loss = (x * w).mean()
            loss.backward()
            return loss.detach(), w.grad.shape[0], torch.autograd.grad((x * w).sum(), w)[0]

        return body, w

    (eager, w), (body, v) = make(), make()
    f = tracehost.function(body, input_signature=[tracehost.TensorSpec([None, 3])])
    with assert_traces(f, 1):
        for size in (4, 2, 7, 1):
            x = torch.arange(3.0 * size).view(size, 3)
            assert_same(f(x), eager(x))
            assert_same(v.grad, w.grad)


def rejects(body, *arguments, match):
    with pytest.raises(tracehost.TraceError, match=match) as error:
        tracehost.function(body)(*arguments)
    return str(error.value)


def test_what_can_not_be_recorded_is_rejected_with_the_line():
    x = leaf(1.0, 2.0)

    def batched(x):
        y = x * x
        return torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)  # here

    rejects(batched, x, match=place(batched))

    def edge(x):
        e = torch.autograd.graph.get_gradient_edge(x)
        return torch.autograd.grad((x * x).sum(), e)  # here

    rejects(edge, x, match=f"at {place(edge)} is given a GradientEdge")

    def hook(x):
        (x * x).grad_fn.register_hook(print)  # here

    rejects(hook, x, match=place(hook))

    def saved(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # here
            return x * x

    rejects(saved, x, match=rf"\(saved_tensors_hooks\) at {place(saved)}")


def test_a_gradient_that_is_an_argument_too_is_rejected():
    w = leaf(1.0)
    w.grad = torch.ones(1)

    def body(g):
        return w.grad + g  # here

    with pytest.raises(tracehost.TraceError, match="reads a .grad that it is given also as 'g'"):
        tracehost.function(body)(w.grad)


def test_without_example_data_it_is_rejected():
    w = leaf(1.0)

    @tracehost.function
    def f(x):
        (w * x).sum().backward()

    with pytest.raises(tracehost.TraceError, match="without example data"):
        f.get_concrete_function(tracehost.TensorSpec([1]))


def halve(net, excess):
    while excess > 0.1:
        for p in net.parameters():
            p.grad.mul_(0.5)
        excess = excess * 0.5
    return excess


def clip(net, excess):
    while torch.sqrt(sum(p.grad.square().sum() for p in net.parameters())) > 0.5:
        for p in net.parameters():
            p.grad.mul_(0.7)
    return excess


def add(net, excess):
    total = torch.zeros(())
    for i in range(excess.long() % 3):
        total = total + net.weight.grad.sum() * i
    return total


def replace(net, excess):
    for _i in range(excess.long() % 3):
        for p in net.parameters():
            p.grad = p.grad * 0.5
    return excess


@pytest.mark.parametrize("change", [halve, clip, add, replace])
def test_a_gradient_is_read_in_a_staged_loop_first(change):
    def step_of(net):
        def step(x):
            net.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return change(net, loss.detach())

        return step

    torch.manual_seed(0)
    nets = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    nets[1].load_state_dict(nets[0].state_dict())
    ours, eagers = tracehost.function(step_of(nets[0])), step_of(nets[1])
    for i in range(8):
        x = torch.ones(2, 3) * (i % 5)
        assert_same(ours(x), eagers(x))
        for a, b in zip(nets[0].parameters(), nets[1].parameters()):
            assert_same(a.grad, b.grad)
    assert ours.stats()["hits"] > 0
    assert ours.stats()["mismatches"] == 0
