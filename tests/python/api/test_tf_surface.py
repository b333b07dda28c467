"""Programs as somebody has them who comes from TensorFlow: several names together, against plain Python."""

import functools
import warnings

import pytest
import torch
import tracehost
from eager_support import same
from tracehost import TensorArray, TensorSpec, case, map_fn, py_function, scan, switch_case
from tracehost import print as tprint
from tracehost.testing import assert_traces


def rows(count, width=2):
    return torch.arange(1.0, 1 + count * width).reshape(count, width)


def n(value):
    return torch.tensor(value)


X = rows(1)[0]


# ---- What is changed in place


def kept(xs, function):
    """The result, and what the call has left in its input."""
    return function(xs), xs.sum(), xs * 2


IN_PLACE = {
    "a row": lambda xs: kept(xs, lambda xs: map_fn(lambda x: x.mul_(2), xs)),
    "a row, in scan": lambda xs: kept(xs, lambda xs: scan(lambda a, x: x.add_(a), xs)),
    "the value carried": lambda xs: scan(lambda a, x: a.add_(x), xs, torch.zeros(2)),
    "the first row": lambda xs: kept(xs, lambda xs: scan(lambda a, x: a.add_(x), xs)),
    "the result": lambda xs: kept(xs, lambda xs: map_fn(lambda x: x, xs).add_(1)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    f = IN_PLACE[name]
    staged = tracehost.function(f)
    with assert_traces(staged, 1):
        for factor in (1, 2, -1):
            a, b = rows(3) * factor, rows(3) * factor
            torch.testing.assert_close((staged(b), b), (f(a), a))


def test_a_buffer_and_what_python_of_the_graph_writes():
    def f(xs, buffer, count):
        def add(x):
            buffer.add_(x)
            return buffer * 1

        def double(t):
            t.mul_(2)

        seen = map_fn(add, xs)
        for _ in range(count):
            py_function(double, [buffer], None)
            seen = seen + buffer
        return seen

    staged = tracehost.function(f)
    with assert_traces(staged, 1):
        for count in (2, 0, 3):
            a, b = torch.zeros(2), torch.zeros(2)
            torch.testing.assert_close(staged(rows(3), a, n(count)), f(rows(3), b, n(count)))
            torch.testing.assert_close(a, b)


# ---- What fn may be


class Scaled:
    def __init__(self):
        self.weight = torch.tensor([2.0, 3.0])

    def scale(self, x):
        return x * self.weight


@tracehost.function
def clipped(x):
    return x * 5 if x.sum() > 5 else x


@pytest.mark.parametrize(
    "fn",
    [
        torch.nn.Linear(2, 3),
        Scaled().scale,
        functools.partial(torch.mul, torch.tensor(3.0)),
        clipped,
        torch.sin,
        torch.Tensor.exp,
    ],
)
def test_any_callable(fn):
    same(lambda xs: map_fn(fn, xs), (rows(3),), (-rows(3),))


# ---- Methods, loops, branches


class Model:
    @tracehost.function
    def forward(self, xs, kind):
        out = TensorArray("float32", size=xs.shape[0])
        for i in tracehost.range(xs.shape[0]):
            out = out.write(i, self.one(xs[i], kind))
        return out.stack()

    def one(self, x, kind):
        return switch_case(kind, {0: lambda: x, 1: lambda: x * 2}, lambda: x * 3)


def test_a_method():
    model = Model()
    with assert_traces(model.forward, 1):
        for kind in (0, 1, 2, 0):
            torch.testing.assert_close(model.forward(rows(3), n(kind)), rows(3) * (kind + 1))


def test_writes_in_the_functions_of_a_case():
    def f(x, count):
        out = TensorArray("float32", size=3, element_shape=[2])
        for i in range(count):
            case(
                [(i == 0, lambda: out.write(0, x)), (i == 1, lambda: out.write(1, -x))],
                lambda: out.scatter([2], x[None] * 5),
            )
        return out.stack(), len(out), out.gather([0, 2])

    same(f, *[(X, n(count)) for count in (2, 0, 1, 3)])


def test_an_array_of_as_many_elements_as_another():
    def f(x, count):
        a = TensorArray(size=0, dynamic_size=True, element_shape=[])
        for i in range(count):
            a.write(i, x[0] * i)
        b = TensorArray(size=a.size(), element_shape=[])
        for i in range(len(a)):
            b.write(i, a.read(i) + 1)
        return b.stack()

    same(f, (X, n(3)), (X, n(0)), (X, n(4)))


def test_a_loop_that_ends_early():
    def f(xs, most):
        i = 0
        while i < most:
            xs = scan(lambda a, x: a * x, xs)
            i += 1
            if xs.sum() > 100:
                break
        return xs, i

    same(f, *[(rows(3), n(most)) for most in (3, 0, 1, 5)])


def test_what_the_functions_of_a_case_store():
    class State:
        best = torch.zeros(2)

    def f(x, kind):
        def double():
            State.best = x * 2

        def triple():
            State.best = x * 3

        switch_case(kind, [double, triple], lambda: None)
        return State.best + 1

    staged = tracehost.function(f)
    with assert_traces(staged, 1):
        for kind in (0, 1, 5, 0):
            found = []
            for call in (f, staged):
                State.best = torch.zeros(2)
                found.append((call(X, n(kind)), State.best))
            torch.testing.assert_close(found[1], found[0])


# ---- Modes and gradients


def test_inference_mode_and_another_default_dtype():
    def f(xs):
        return map_fn(lambda x: 2.5, xs), scan(lambda a, x: a + x.sum(), xs, 0.0)

    with torch.inference_mode():
        same(f, (rows(3),), (-rows(3),), grad=False)
    torch.set_default_dtype(torch.float64)
    try:
        same(f, (rows(3).double(),), (-rows(3).double(),))
    finally:
        torch.set_default_dtype(torch.float32)


def test_grad_mode_of_the_place():
    def f(xs):
        with torch.no_grad():
            sums = scan(lambda a, x: a + x, xs)
        return sums * xs

    same(f, (rows(3),), (rows(3) * 2,))


def test_gradients_in_the_body():
    w = torch.ones(2, requires_grad=True)

    def f(xs):
        loss = scan(lambda a, x: a * w + x, xs).sum()
        (g,) = torch.autograd.grad(loss, w)
        return g

    staged = tracehost.function(f)
    with assert_traces(staged, 1):
        for factor in (1.0, 2.0):
            torch.testing.assert_close(staged(rows(3) * factor), f(rows(3) * factor))


def test_a_training_step(capsys):
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.01)

    def step(xs):
        optimizer.zero_grad()
        loss = (map_fn(lambda x: (x * w).sum(), xs, fn_output_signature=TensorSpec([])) ** 2).mean()
        loss.backward()
        optimizer.step()
        tprint("loss", loss)
        return loss * 1

    losses = []
    for call in (step, tracehost.function(step)):
        with torch.no_grad():
            w.fill_(1)
        losses.append([call(rows(3)).item() for _ in range(3)])
    assert losses[0] == losses[1]
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 6 and printed[:3] == printed[3:]


# ---- Sizes that may differ, requests, archives


@pytest.mark.parametrize(
    "f",
    [
        lambda xs: map_fn(lambda x: x * 2, xs),
        lambda xs: scan(lambda a, x: a + x, xs),
        lambda xs: scan(lambda a, x: a + x, xs, reverse=True),
        lambda xs: scan(lambda a, x: a + x, xs, torch.ones(2)),
        lambda xs: map_fn(lambda x: x.sum(), xs, fn_output_signature=TensorSpec([])),
        lambda xs: TensorArray("float32", xs.shape[0], element_shape=[2]).write(0, xs[0]).stack(),
        lambda xs: switch_case(xs.sum().long(), [lambda: xs, lambda: xs * 2]),
        lambda xs: case([(xs.sum() > 9, lambda: xs)], lambda: xs * 2),
    ],
)
def test_requests_dynamic_sizes_and_archives(f, tmp_path):
    staged = tracehost.function(f)
    concrete = staged.get_concrete_function(TensorSpec([None, 2]))
    tracehost.save(str(tmp_path / "f.thz"), {"f": concrete})
    loaded = tracehost.load(str(tmp_path / "f.thz"))
    dynamic = tracehost.function(f, reduce_retracing=True)
    for count in (3, 1, 4, 2):
        for call in (concrete, loaded["f"], dynamic):
            torch.testing.assert_close(call(rows(count)), f(rows(count)))
    assert staged.tracing_count() == 1 and dynamic.tracing_count() == 2


def test_a_size_by_a_tensor_without_data():
    f = tracehost.function(
        lambda x, size: TensorArray("float32", size, element_shape=[2]).write(0, x).stack()
    )
    concrete = f.get_concrete_function(TensorSpec([2]), TensorSpec([], "int64"))
    for size in (3, 1):
        torch.testing.assert_close(concrete(X, n(size)), f.python_function(X, n(size)))


def test_any_rank():
    f = tracehost.function(
        lambda x: map_fn(lambda row: row * 2, x), input_signature=[TensorSpec(None)]
    )
    with assert_traces(f, 3):
        for x in (rows(2), rows(3), torch.ones(2, 3, 4), torch.ones(5)):
            torch.testing.assert_close(f(x), x * 2)


def test_a_type_that_is_registered_later_makes_no_trace():
    def f(x):
        found = tracehost.cond(x.sum() > 0, lambda: {"a": x, "b": 1}, lambda: {"a": -x, "b": 2})
        rows = map_fn(lambda pair: (pair[0], pair[1] * 2), (x, x))
        return found, rows, scan(lambda a, y: a + y, x)

    class Registered:
        pass

    staged = tracehost.function(f)
    same(f, (X,), staged=staged)
    torch.utils._pytree.register_pytree_node(Registered, lambda r: ([], None), lambda *_: None)
    same(f, (X,), (-X,), staged=staged)


# ---- Prints


def test_prints_of_dynamic_sizes_validated_hits_and_traces_given_up(capsys):
    dynamic = tracehost.function(
        lambda x: tprint(x.shape[0], x.sum()) or x * 2, reduce_retracing=True
    )
    with assert_traces(dynamic, 2):
        for size in (1, 2, 3, 4):
            dynamic(torch.ones(size))
        assert capsys.readouterr().err == "".join(f"{k} tensor({k}.)\n" for k in (1, 2, 3, 4))

    validated = tracehost.function(lambda x: tprint(x) or x * 2, validate=1)
    for _ in range(3):
        validated(X)
    assert capsys.readouterr().err == f"{X}\n" * 3

    @tracehost.function
    def given_up(x):
        tprint("before", x)
        y = x.tolist()
        tprint("after", x)
        return x * sum(y)

    with tracehost.stance("eager_on_error"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            given_up(X)
    assert capsys.readouterr().err == f"before {X}\nafter {X}\n" * 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Variable", ": use a torch.nn.Parameter, or a tensor that the body changes in place"),
        ("GradientTape", ": call loss.backward(), or torch.autograd.grad(loss, tensors)"),
        ("config", ": run_functions_eagerly() and stance() are functions of tracehost"),
        ("funtion", ""),
    ],
)
def test_a_name_of_tf_names_its_counterpart(name, hint):
    with pytest.raises(AttributeError) as raised:
        getattr(tracehost, name)
    assert str(raised.value) == f"module 'tracehost' has no attribute {name!r}{hint}"
    assert (raised.value.name, raised.value.obj) == (name, tracehost)


def test_a_concrete_functions_names_of_tf_name_their_counterparts():
    concrete = tracehost.function(lambda x: x * 2).get_concrete_function(torch.ones(2))
    with pytest.raises(AttributeError) as raised:
        _ = concrete.variables
    assert str(raised.value) == (
        "'ConcreteFunction' object has no attribute 'variables': call parameters() and buffers()"
    )
    assert not hasattr(concrete, "__deepcopy__") and not hasattr(tracehost, "__wrapped__")


# ---- Words of tf's that are not taken


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tracehost.cond(True, lambda: 1, lambda: 2, name="c"),
         "cond() got an unexpected keyword argument 'name': leave it out"),
        (lambda: tracehost.while_loop(lambda i: i < 3, lambda i: i + 1, [0], back_prop=False),
         "while_loop() got an unexpected keyword argument 'back_prop': leave it out; for False write "
         "`with torch.no_grad():` around the call"),
        (lambda: case([(True, lambda: 1)], strict=True), "case() got an unexpected keyword argument 'strict': leave it out"),
        (lambda: switch_case(0, [lambda: 1], nmae="c"), "switch_case() got an unexpected keyword argument 'nmae'"),
        (lambda: map_fn(lambda x: x, rows(2), parallel_iterations=10),
         "map_fn() got an unexpected keyword argument 'parallel_iterations': leave it out: iterations run in order"),
        (lambda: scan(lambda a, x: a + x, rows(2), swap_memory=True),
         "scan() got an unexpected keyword argument 'swap_memory': leave it out"),
        (lambda: tracehost.function(lambda x: x, reduce_retracing="yes"),
         "reduce_retracing must be True or False, got 'yes'"),
    ],
)  # fmt: skip
def test_options_of_tf(call, message):
    with pytest.raises(TypeError) as error:
        call()
    assert str(error.value) == message


def test_a_name_in_the_place_of_a_device():
    with pytest.raises(ValueError) as error:
        TensorSpec([None], torch.float32, "x")
    assert str(error.value) == (
        "TensorSpec: 'x' (str) is not a device; if it is the name, as in tf's third place, write name='x'"
    )


def test_attributes_of_a_function_of_tf():
    f = tracehost.function(lambda x: x)
    with pytest.raises(AttributeError) as error:
        f.function_spec
    assert str(error.value) == (
        "a Function has no attribute 'function_spec': specializations() lists what the graphs are for"
    )
    assert error.value.obj is f and error.value.name == "function_spec"
    with pytest.raises(AttributeError, match="'tracehost.Function' object has no attribute 'nope'"):
        f.nope
    assert not hasattr(f, "variables") and f.name == "<lambda>"
    f.note = 1
    assert f.note == 1
