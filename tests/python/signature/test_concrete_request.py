"""get_concrete_function: a trace asked for by its signature, without running an op."""

import copy
import gc
import threading
import weakref

import pytest
import torch
import tracehost
from python_versions import ONE_BELOW_CLASSMETHOD
from torch import nn
from tracehost import TensorSpec
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def served(f, *args, **kwargs):
    """The result, and whether no trace was needed for it."""
    before = f.tracing_count()
    result = f(*args, **kwargs)
    return result, f.tracing_count() == before


def test_a_spec_makes_the_trace_that_calls_hit():  # rows 1.41, 3.15
    f = tracehost.function(lambda x, y: x * y + 1)
    f.get_concrete_function(TensorSpec([2, 3]), TensorSpec([3]))
    x, y = torch.randn(2, 3), torch.randn(3)
    result, hit = served(f, x, y)
    assert hit and torch.equal(result, x * y + 1)
    assert f.stats()["traces"] == 1 and f.stats()["hits"] == 1


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3),
        torch.ones(2, 3, requires_grad=True),
        torch.ones(3, 2).t(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.int8),
        torch.ones((), dtype=torch.bool),
        torch.eye(2).to_sparse(),
        nn.Parameter(torch.ones(2)),
        torch.ones(2, requires_grad=True) * 2,
    ],
    ids=["plain", "grad", "strided", "conj", "int8", "bool", "sparse", "parameter", "non-leaf"],
)
def test_a_tensor_is_taken_for_its_signature(tensor):
    f = tracehost.function(lambda x: (x + x, x.is_leaf, type(x).__name__))
    f.get_concrete_function(tensor)
    result, hit = served(f, tensor)
    assert hit
    expected = f.python_function(tensor)
    assert torch.equal(result[0].to_dense(), expected[0].to_dense())
    assert result[0].requires_grad == expected[0].requires_grad
    assert result[1:] == expected[1:]


def test_specs_and_tensors_share():  # row 1.42
    f = tracehost.function(lambda x: x * 2)
    with assert_traces(f, 2):
        one = f.get_concrete_function(TensorSpec([2]))
        assert f.get_concrete_function(torch.ones(2)) is one
        assert f.get_concrete_function(TensorSpec([2])) is one
        assert f.get_concrete_function(TensorSpec([3])) is not one


def test_values_and_specs_at_any_depth():  # rows 1.41, 2.71
    @tracehost.function
    def f(batch, scale, *rest, flag=True, **more):
        total = batch["a"][0] * scale + batch["b"] + sum(rest) + more["z"]
        return total if flag else -total

    s = TensorSpec([2])
    f.get_concrete_function({"a": [s, 1], "b": torch.zeros(2)}, 3, s, s, flag=False, z=s)
    t = [torch.randn(2) for _ in range(5)]
    result, hit = served(f, {"a": [t[0], 1], "b": t[1]}, 3, t[2], t[3], flag=False, z=t[4])
    assert hit
    torch.testing.assert_close(result, -(t[0] * 3 + t[1] + t[2] + t[3] + t[4]))
    assert not served(f, {"a": [t[0], 2], "b": t[1]}, 3, t[2], t[3], flag=False, z=t[4])[1]


def test_one_spec_twice_is_two_tensors_and_a_tensor_twice_is_one():
    f = tracehost.function(lambda x, y: x + y)
    s, t = TensorSpec([2]), torch.ones(2)
    f.get_concrete_function(s, s)
    assert served(f, torch.ones(2), torch.ones(2))[1]
    assert not served(f, t, t)[1]
    g = tracehost.function(lambda x, y: x + y)
    g.get_concrete_function(t, t)
    u = torch.full((2,), 3.0)
    result, hit = served(g, u, u)
    assert hit and result.tolist() == [6.0, 6.0]


def test_open_sizes_serve_all():  # rows 3.10, 3.12, 6.11
    f = tracehost.function(lambda x, y: x @ y)
    with assert_traces(f, 1):
        f.get_concrete_function(TensorSpec([None, 3]), TensorSpec([3, None]))
        for n, m in ((1, 1), (4, 2), (0, 5)):
            x, y = torch.randn(n, 3), torch.randn(3, m)
            result, hit = served(f, x, y)
            assert hit and torch.equal(result, x @ y)


def test_the_most_specific_serves_and_a_wide_one_serves_narrow_requests():  # row 3.12
    f = tracehost.function(lambda x: x * 2)
    narrow = f.get_concrete_function(TensorSpec([None, 2]))
    wide = f.get_concrete_function(TensorSpec([None, None]))
    assert narrow is not wide
    assert f.get_concrete_function(torch.ones(3, 2)) is narrow
    assert f.get_concrete_function(torch.ones(3, 3)) is wide
    g = tracehost.function(lambda x: x * 2)
    with assert_traces(g, 1):
        wide = g.get_concrete_function(TensorSpec([None, None]))
        assert g.get_concrete_function(TensorSpec([None, 2])) is wide


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        (lambda x, y: x + y, ([None, 3], [None, 3])),  # equal by dimension
        (lambda x, y: x + y, ([3, None], [None])),  # equal, other dimensions
        (lambda x: x.view(-1, 4), ([None],)),  # divisible
        (lambda x: x.softmax(dim=1), (None,)),  # any rank: the lowest that the body takes
    ],
)
def test_sizes_are_chosen_so_that_the_body_runs(body, shapes):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        f.get_concrete_function(*map(TensorSpec, shapes))


def test_the_first_error_is_reported():
    f = tracehost.function(lambda x, y: x @ y)
    with assert_traces(f, 0):
        with pytest.raises(RuntimeError, match=r"\(127x3 and 5x131\)"):
            f.get_concrete_function(TensorSpec([None, 3]), TensorSpec([5, None]))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        x.mul_(2)
        self.norm.weight.data_ptr  # noqa: B018  (an attribute: nothing is read)
        return self.fc(self.drop(self.norm(x))) + torch.rand(())


def state(module, x):
    tensors = {**module.state_dict(), "x": x}
    return {
        name: (t.clone(), t._version, t.requires_grad, t.grad_fn) for name, t in tensors.items()
    }


def test_nothing_real_changes():  # row 1.41
    net, x = Net(), torch.randn(4, 3)
    f = tracehost.function(net)
    before, generator = state(net, x), torch.get_rng_state()
    f.get_concrete_function(x)
    f.get_concrete_function(TensorSpec([5, 3]))
    after = state(net, x)
    assert torch.equal(generator, torch.get_rng_state())
    for name, (value, *others) in before.items():
        assert torch.equal(value, after[name][0]) and others == list(after[name][1:]), name

    twin, y = copy.deepcopy(net), x.clone()
    torch.manual_seed(3)
    result, hit = served(f, x)
    torch.manual_seed(3)
    assert hit
    torch.testing.assert_close(result, twin(y))
    torch.testing.assert_close(x, y)
    torch.testing.assert_close(dict(net.state_dict()), dict(twin.state_dict()))


def test_an_in_place_op_that_makes_a_buffer_part_of_a_gradient_is_rejected():
    buffer, weight = torch.zeros(2), torch.ones(2, requires_grad=True)

    def body(x):
        buffer.add_(x * weight)
        return buffer.sum()

    with pytest.raises(tracehost.TraceError, match="requires_grad of a tensor in place"):
        tracehost.function(body).get_concrete_function(TensorSpec([2]))
    assert not buffer.requires_grad and buffer._version == 0


def test_literals_are_real_constants():
    f = tracehost.function(lambda x: x + torch.tensor([1.0, 2.0]) * 3)
    cf = f.get_concrete_function(TensorSpec([2]))
    assert cf(torch.zeros(2)).tolist() == [3.0, 6.0]
    assert served(f, torch.ones(2))[0].tolist() == [4.0, 7.0]


def test_captures_stay_the_real_tensors():
    weight = nn.Parameter(torch.ones(2))
    f = tracehost.function(lambda x: x * weight)
    cf = f.get_concrete_function(TensorSpec([2]))
    assert cf.captured_inputs[0] is weight
    with torch.no_grad():
        weight.fill_(3.0)
    assert f(torch.ones(2)).tolist() == [3.0, 3.0]


def test_a_capture_that_is_also_an_argument():
    model = nn.Linear(2, 2)
    f = tracehost.function(lambda w: w + model.weight)
    f.get_concrete_function(model.weight)
    result, hit = served(f, model.weight)
    assert hit and torch.equal(result, model.weight * 2)
    other = f.get_concrete_function(nn.Parameter(torch.ones(2, 2)))
    assert other is not f.get_concrete_function(model.weight)


def test_torchs_own_python_code_is_not_guarded():
    class Box:
        def __init__(self):
            self.mode = self.constant = self.fake_device = self.shape_env = 1

    box = Box()
    f = tracehost.function(lambda x: x * 2 if box is not None else x)
    f.get_concrete_function(TensorSpec([2]))
    box.mode = box.constant = box.fake_device = box.shape_env = 2
    assert served(f, torch.ones(2))[1]


def test_what_does_not_run_without_data_says_so():
    f = tracehost.function(lambda x: torch.nonzero(x))
    with pytest.raises(tracehost.TraceError) as error:
        f.get_concrete_function(TensorSpec([2]))
    assert "does not run without data" in str(error.value)
    assert "example tensors" in str(error.value)


def test_reads_of_values_are_rejected_as_in_a_call():
    f = tracehost.function(lambda x: x * x.sum().numpy().tolist())
    with pytest.raises(tracehost.ValueReadError, match=r"test_concrete_request\.py"):
        f.get_concrete_function(TensorSpec([2]))


def test_from_many_threads_one_object():  # row 1.44
    runs = []

    def body(x):
        runs.append(1)
        return x * 2

    f = tracehost.function(body, watch=False)
    gate, got = threading.Barrier(8), []

    def ask():
        gate.wait()
        got.append(f.get_concrete_function(TensorSpec([2])))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 8 and len({id(cf) for cf in got}) == 1
    assert f.tracing_count() == len(runs) == 1


@pytest.mark.filterwarnings("error::tracehost.RetraceWarning")
def test_requests_do_not_count_for_the_detector():  # row 1.46
    f = tracehost.function(lambda x, n: x * n)
    with assert_traces(f, 8):
        for n in range(8):
            f.get_concrete_function(TensorSpec([]), n)


def test_the_arguments_have_to_fit():  # row 1.43
    f = tracehost.function(lambda x: x)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f.get_concrete_function()
    with pytest.raises(TypeError, match="too many positional arguments"):
        f.get_concrete_function(TensorSpec([]), TensorSpec([]))


def test_a_declared_function_needs_no_arguments():  # rows 1.43, 5.28
    f = tracehost.function(
        lambda x, n=2, *, flag=True: x * n if flag else x, input_signature=[TensorSpec([None])]
    )
    with assert_traces(f, 1):
        one = f.get_concrete_function()
        assert f.get_concrete_function(TensorSpec([None])) is one
        assert f.get_concrete_function(TensorSpec([5])) is one
        assert f.get_concrete_function(torch.ones(7)) is one
        assert served(f, torch.ones(3))[1]
    with pytest.raises(tracehost.SignatureError) as error:
        f.get_concrete_function(TensorSpec([2], torch.int64))
    assert "argument 'x': expected TensorSpec(shape=(None,)" in str(error.value)
    assert "got TensorSpec(shape=(2,), dtype=torch.int64, name=None)" in str(error.value)


def test_methods_know_their_instance():  # row 6.01
    class Model:
        k = 3.0

        @tracehost.function
        def call(self, x):
            return x * self.k

        @classmethod
        @tracehost.function
        def make(cls, x):
            return x * cls.k

        @tracehost.function
        @classmethod
        def above(cls, x):
            return x * cls.k

    m = Model()
    with assert_traces(m.call, 1):
        cf = m.call.get_concrete_function(TensorSpec([None]))
        assert cf(torch.ones(2)).tolist() == [3.0, 3.0]
        assert m.call.get_concrete_function(torch.ones(4)) is cf
        of_class = Model.call.get_concrete_function(m, TensorSpec([2]))  # another Function
        assert of_class(torch.ones(2)).tolist() == [3.0, 3.0]
        assert m.call(torch.ones(1)).item() == 3.0
    of_no_class = (Model,) if ONE_BELOW_CLASSMETHOD else ()
    made = Model.make.get_concrete_function(*of_no_class, TensorSpec([]))
    assert made(torch.ones(())).item() == 3.0
    assert Model.above.get_concrete_function(TensorSpec([]))(torch.ones(())).item() == 3.0


def test_a_request_in_a_body_is_rejected():
    inner = tracehost.function(lambda x: x + 1)

    def body(x):
        return inner.get_concrete_function(TensorSpec([]))(x)

    with pytest.raises(tracehost.TraceError, match="ask for it outside"):
        tracehost.function(body)(torch.ones(()))


def test_it_outlives_its_function():  # row 1.45
    weight = torch.full((2,), 3.0)

    def make():
        return tracehost.function(lambda x: x * weight)

    f = make()
    cf, gone = f.get_concrete_function(TensorSpec([2])), weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None
    assert cf(torch.ones(2)).tolist() == [3.0, 3.0]
    assert "aten::mul" in str(cf.graph) and cf.name == "<lambda>"


def test_graphs_go_with_their_owners_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        marker = torch.zeros(3)
        f = tracehost.function(lambda x, held=marker: x + held)
        gone = weakref.ref(marker)
        cf = f.get_concrete_function(TensorSpec([3]))
        body = weakref.ref(f.python_function)
        del f, marker
        assert body() is not None and gone() is not None
        cf(torch.ones(3), torch.ones(3))
        del cf
        assert body() is None and gone() is None
    finally:
        gc.enable()


def test_a_cycle_through_it_is_collected():
    def make():
        holder = []
        f = tracehost.function(lambda x: (holder, x)[1] * 2)
        holder.append(f.get_concrete_function(TensorSpec([2])))
        holder.append(f)
        return weakref.ref(f), weakref.ref(holder[0])

    refs = make()
    gc.collect()
    assert [r() for r in refs] == [None, None]


def test_an_evicted_one_is_let_go():
    f = tracehost.function(lambda x, n: x * n, limit=2)
    made = [weakref.ref(f.get_concrete_function(TensorSpec([]), n)) for n in range(4)]
    assert f.stats()["live"] == 2
    assert [ref() is not None for ref in made].count(True) == 2


def test_reduce_retracing_takes_requested_traces_into_account():  # row 3.20
    f = tracehost.function(lambda x: x * 2, reduce_retracing=True)
    with assert_traces(f, 2):
        f.get_concrete_function(TensorSpec([2]))
        f(torch.ones(3))
        assert served(f, torch.ones(4))[1]


def test_warm_up_traces_ahead():
    f = tracehost.function(lambda x, n=1: x * n)
    with assert_traces(f, 3):
        made = f.warm_up(TensorSpec([2]), (TensorSpec([3]), 2), {"x": TensorSpec([4]), "n": 3})
        assert [cf.name for cf in made] == ["<lambda>"] * 3
    assert served(f, torch.ones(2))[1]
    assert served(f, torch.ones(3), 2)[1]
    assert served(f, torch.ones(4), n=3)[1]


def test_warm_up_of_a_method():
    class Model:
        @tracehost.function
        def call(self, x):
            return x + 1

    m = Model()
    m.call.warm_up(TensorSpec([2]))
    assert served(m.call, torch.ones(2))[1]


@pytest.mark.parametrize(
    ("args", "spec"),
    [
        ((torch.float64,), "[None], torch.float64"),
        (([None, 3],), "[None, 3], torch.float32"),
        (((None, 3), torch.int64), "[None, 3], torch.int64"),
        ((torch.Size([2, 3]),), "[2, 3], torch.float32"),
    ],
)
def test_a_shape_or_a_dtype_in_place_of_a_spec_is_noted(args, spec):
    f = tracehost.function(lambda x: x + torch.ones(3), name="f")
    with pytest.raises(TypeError) as caught:
        f.get_concrete_function(*args)
    assert caught.value.__notes__ == [
        "A shape, a dtype or a list is a Python value here, as in a call. For each tensor pass a "
        f"TensorSpec, tracehost.TensorSpec({spec}), with a None for each size that may differ."
    ]


def test_a_python_value_that_serves_has_no_note():
    f = tracehost.function(lambda dtype, sizes=(): torch.zeros(2, dtype=dtype))
    assert f.get_concrete_function(torch.int64, [None, 3])().dtype == torch.int64
    g = tracehost.function(lambda x, sizes: x.missing)
    with pytest.raises(AttributeError) as caught:
        g.get_concrete_function(TensorSpec([2]), [None, 3])
    assert not hasattr(caught.value, "__notes__")


def test_a_number_that_stands_for_a_size_of_none_is_named():
    f = tracehost.function(lambda x: x @ torch.ones(5, 3))
    with pytest.raises(RuntimeError, match=r"\(127x4 and 5x3\)") as caught:
        f.get_concrete_function(TensorSpec([None, 4]))
    assert caught.value.__notes__ == [
        "127 stands for the None of dimension 0 of TensorSpec(shape=(None, 4), dtype=torch.float32, name=None): "
        "a trace from specs needs a number."
    ]
    with pytest.raises(RuntimeError) as caught:
        f.get_concrete_function(TensorSpec([2, 4]))
    assert not hasattr(caught.value, "__notes__")
