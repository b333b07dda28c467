"""What users of torch.jit.trace complain about: one test each, named after pytorch/pytorch's issues."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import tracehost
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


def same(body, *calls, traces=1, **options):
    """`f` gives what `body` gives, to the bit, for each call."""
    f = tracehost.function(body, **options)
    with assert_traces(f, traces):
        for args in calls:
            torch.manual_seed(3)
            expected = body(*args)
            torch.manual_seed(3)
            got = f(*args)
            for a, b in zip(
                torch.utils._pytree.tree_leaves(got),
                torch.utils._pytree.tree_leaves(expected),
                strict=True,
            ):
                if isinstance(b, torch.Tensor):
                    assert torch.equal(a, b) and a.dtype is b.dtype and a.device == b.device
                    assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
                else:
                    assert a == b and type(a) is type(b)
    return f


X, Y = torch.arange(6.0).reshape(2, 3), -torch.ones(2, 3)


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def loops(x):
    while x.max() < 100:
        x = x * 3 + 1
    return x


def test_120485_58225_22485_29909_control_flow_on_data_is_no_constant():
    same(branches, (X,), (Y,))
    same(loops, (X,), (X * 10,), (X + 200,))


def by_range(x):
    total = x[0] * 0
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total


def by_index(x):
    return [10, 20, 30, 40][x.shape[0]] * x.sum()


def test_50414_43548_sizes_that_python_uses_are_part_of_the_signature():
    for body in (by_range, by_index):
        same(body, (X,), (X[:1],), (X.repeat(2, 1)[:3],), traces=3)


def test_sizes_stay_right_where_they_may_differ():
    spec = [tracehost.TensorSpec([None, 3])]
    same(
        lambda x: x.reshape(-1).view(x.shape[0] * 3) / x.shape[0],
        (X,),
        (X[:1],),
        (X.repeat(3, 1),),
        input_signature=spec,
    )
    same(by_range, (X,), (X[:1],), (X,), traces=2, input_signature=spec)


def test_62961_31141_13969_17655_46580_145995_42170_43134_the_device_is_no_constant():
    f = tracehost.function(lambda x: x + torch.ones(3, device=x.device))
    with assert_traces(f, 2):
        assert f(X).device.type == "cpu" and f(X.to("meta")).device.type == "meta"
        assert f(X).device.type == "cpu"


def test_47010_the_dtype_is_no_constant():
    same(
        lambda x: x + torch.zeros(3, dtype=x.dtype),
        (X,),
        (X.double(),),
        (X.to(torch.int64),),
        (X,),
        traces=3,
    )


def test_17583_18569_a_tensor_that_requires_grad_may_be_reached():
    w = torch.ones(3, requires_grad=True)
    f = same(lambda x: x * w, (X,), (Y,))
    f(X).sum().backward()
    assert torch.equal(w.grad, X.sum(0))


def optional(x, y=None, *, scale=None, extra=()):
    result = {"x": x if scale is None else x * scale, "y": y, "n": len(extra)}
    for t in extra:
        result["x"] = result["x"] + t
    return result


def test_16097_80007_81623_80019_dicts_none_and_keywords_are_arguments_and_results():
    f = tracehost.function(optional)
    calls = [
        ((X,), {}),
        ((X, None), {}),
        ((X, Y), {"scale": 2.0}),
        ((X,), {"y": Y, "scale": 2.0}),
        ((X,), {"extra": (X, Y)}),
    ]
    with assert_traces(f, 3):
        for args, kwargs in calls:
            got, expected = f(*args, **kwargs), optional(*args, **kwargs)
            assert list(got) == list(expected) and got["n"] == expected["n"]
            assert torch.equal(got["x"], expected["x"])
            assert (got["y"] is None) == (expected["y"] is None)


def test_35600_86537_58109_96726_43119_21454_retraces_leave_nothing_behind():
    f = tracehost.function(lambda x, n: x * n, limit=2)
    with assert_traces(f, 20):
        for n in range(20):
            f(X, n)
        assert f.stats()["live"] == 2
    before = len(torch.jit._state._python_cu.get_functions())
    f(X, 21)
    assert len(torch.jit._state._python_cu.get_functions()) == before


def with_autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ w
        return y, z, z @ w, y + x


def test_84092_62528_63552_75956_89241_autocast():
    w = torch.randn(3, 3, requires_grad=True)
    f = same(with_autocast, (X, w), (Y, w))
    w.grad = None
    f(X, w)[2].sum().backward()
    ours, w.grad = w.grad, None
    with_autocast(X, w)[2].sum().backward()
    assert torch.equal(ours, w.grad)
    with torch.autocast("cpu", torch.bfloat16):
        same(lambda x: x @ w, (X,), (Y,))


def test_53515_no_grad_inside_counts():
    def body(x):
        with torch.no_grad():
            constant = 2 * x
        return (x + constant).sum()

    f = tracehost.function(body)
    for _ in range(2):
        x = X.clone().requires_grad_()
        f(x).backward()
        assert torch.equal(x.grad, torch.ones(2, 3))


def test_29008_126277_writes_to_inputs_and_views():
    def body(x):
        view = x[0]
        view += 1
        x[:, 1].mul_(2)
        return view * 2

    f = tracehost.function(body)
    for start in (X, Y, X * 2):
        ours, theirs = start.clone(), start.clone()
        assert torch.equal(f(ours), body(theirs)) and torch.equal(ours, theirs)
    x = X.clone().requires_grad_()
    tracehost.function(lambda t: (t * 2).add_(1))(x)
    assert x.requires_grad


def test_train_and_eval_are_no_constants():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    f = tracehost.function(net)
    with assert_traces(f, 2):
        for mode in (True, False, True, False):
            net.train(mode)
            state = {k: v.clone() for k, v in net.state_dict().items()}
            torch.manual_seed(1)
            expected = net(X)
            after = {k: v.clone() for k, v in net.state_dict().items()}
            net.load_state_dict(state)
            torch.manual_seed(1)
            assert torch.equal(f(X), expected)
            for k, v in net.state_dict().items():
                assert torch.equal(v, after[k])


def test_149251_65611_128019_104732_scripted_and_traced_callees():
    scripted = torch.jit.script(add_mul)
    traced = torch.jit.trace(lambda t: t * 3, X)
    same(lambda x: traced(scripted(x)) + 1, (X,), (Y,))


def add_mul(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def test_100636_distributions_check_their_arguments():
    def body(mean, scale):
        normal = torch.distributions.Normal(mean, scale)
        sample = normal.sample()
        return sample, normal.log_prob(sample)

    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        same(body, (X, Y.abs()), (Y, Y.abs()))
    finally:
        torch.distributions.Distribution.set_default_validate_args(__debug__)


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(3)", "raise SystemExit(4)"])
def test_74422_23540_the_end_of_the_process_is_clean(end, tmp_path):
    script = tmp_path / "end.py"
    script.write_text(
        "import threading, torch, tracehost\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "f = tracehost.function(lambda x: x * w)\n"
        "kept = [f(torch.ones(3)), f(torch.ones(4, 3))]\n"
        "kept.append(kept)\n"
        "stop = threading.Event()\n"
        "threading.Thread(target=stop.wait, daemon=True).start()\n"
        f"print('done', flush=True)\n{end}\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout == "done\n" and done.stderr == ""
    assert done.returncode == (0 if not end else 3 if "3" in end else 4)


# ---- silent, without so much as a warning ---------------------------------------------------------


def test_lengths_of_unbind_split_and_chunk():
    for body in (
        lambda x: sum(i * t for i, t in enumerate(x.unbind())),
        lambda x: sum(i * t.sum() for i, t in enumerate(x.split(1))),
        lambda x: sum(i * t.sum() for i, t in enumerate(x.chunk(2))),
        lambda x: sum(i * t for i, t in enumerate(x)),
        lambda x: x.sum() * len(x),
        lambda x: x.sum() * len(list(x)),
    ):
        same(body, (X,), (torch.ones(5, 3),), (X,), traces=2)


def test_data_is_no_constant():
    same(lambda x: x.data + 1, (X,), (Y,))
    same(lambda x: (x * 2).data + 1, (X,), (Y,))


def test_strides_and_contiguity():
    square = torch.arange(9.0).reshape(3, 3)
    same(lambda x: x * x.stride(0), (square,), (square.t(),), (square + 1,), traces=2)
    same(
        lambda x: x * 2 if x.is_contiguous() else x * 3,
        (square,),
        (square.t(),),
        (square + 1,),
        traces=2,
    )


def test_python_branches_on_metadata():
    def body(x):
        if x.dim() > 1 and x.dtype is torch.float32 and not x.requires_grad:
            return x * 2
        return x * 3

    same(body, (X,), (X[0],), (X.double(),), (X.clone().requires_grad_(),), (Y,), traces=4)


FACTOR = 2.0


def test_python_values_that_are_read_from_outside():
    def body(x):
        return x * FACTOR

    f = tracehost.function(body)
    global FACTOR
    with assert_traces(f, 2):
        for FACTOR in (2.0, 5.0, 2.0):
            assert torch.equal(f(X), X * FACTOR)


def test_numpy_is_rejected_with_the_line():
    with pytest.raises(tracehost.ValueReadError, match=r"test_complaints_torch\.py:"):
        tracehost.function(lambda x: x * float(x.numpy().sum()))(X)


def test_a_dlpack_round_trip_is_no_constant():
    with pytest.raises(tracehost.Error, match=r"test_complaints_torch\.py:"):
        tracehost.function(lambda x: torch.from_dlpack(x * 2) + 1)(X)


def test_what_another_thread_makes_is_no_constant():
    import threading

    def body(x):
        made = []
        thread = threading.Thread(target=lambda: made.append(x * 2))
        thread.start()
        thread.join()
        return made[0] + 1

    with pytest.raises(tracehost.CaptureError, match=r"test_complaints_torch\.py:"):
        tracehost.function(body)(X)


def test_a_literal_that_is_written_to_is_fresh_at_every_call():
    def body(x):
        total = torch.tensor([0.0] * 3)
        total += x[0]
        return total

    same(body, (X,), (Y,), (X,))


def test_a_size_is_an_int():
    seen = []

    def body(x):
        n = x.shape[0]
        seen.append((type(n), isinstance(n, int), {2: "two"}[n]))
        return x * 2, n

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning):
        assert f(X)[1] == 2 and type(f(X)[1]) is int
    assert seen == [(int, True, "two")]


def test_random_ops_that_nothing_uses_advance_the_generator():
    def body(x):
        torch.rand(5)
        F.dropout(x, 0.5)
        return torch.rand(3)

    f = tracehost.function(body)
    for _ in range(3):
        torch.manual_seed(7)
        expected, after = body(X), torch.rand(1)
        torch.manual_seed(7)
        assert torch.equal(f(X), expected) and torch.equal(torch.rand(1), after)


def test_check_trace_the_body_runs_once():
    ran = []

    def body(x):
        ran.append(1)
        return x + 1

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning):
        f(X)
    f(X)
    assert ran == [1]
