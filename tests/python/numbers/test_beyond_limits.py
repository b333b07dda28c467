"""A Function that serves calls raises for no value: beyond the limits, and where another value has no graph, the call runs as plain Python."""

import subprocess
import sys
import threading
import warnings

import pytest
import torch
import tracehost
from core_support import place
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

NAMES = list(range(100))


def picked(x):
    return x * NAMES[int(x[0])]  # here


def x_of(n):
    return torch.tensor([float(n), 1.0])


def warned(seen):
    return [str(w.message) for w in seen if w.category is tracehost.TraceWarning]


@pytest.fixture
def seen():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_the_ninth_value_of_a_place_runs_as_plain_python(seen):
    f = tracehost.function(picked)
    for n in range(60):
        assert torch.equal(f(x_of(n)), picked(x_of(n)))
    line, first = place(picked), picked.__code__.co_firstlineno
    assert warned(seen) == [
        f"picked (test_beyond_limits.py:{first}) has no graph for some values, and runs as plain Python: the body "
        f"uses a tensor's number as a Python value (by C code) at {line}, which already has 8 graphs, one for each value. "
        "Keep the computation in numbers and tensors (torch.where, masks; under autograph, if, while and "
        "range() take them), or move the read out of the function."
    ]
    stats = f.stats()
    assert (stats["traces"], stats["eager"], stats["calls"]) == (8, 52, 60)
    assert torch.equal(f(x_of(90)), picked(x_of(90)))


def test_what_has_a_graph_still_hits(seen):
    f = tracehost.function(picked)
    with assert_traces(f, 8):
        for n in range(12):
            f(x_of(n))
        hits = f.stats()["hits"]
        for n in (5, 9, 0, 7, 10, 5):
            assert torch.equal(f(x_of(n)), picked(x_of(n)))
        assert f.stats()["hits"] == hits + 4


def test_the_seventeenth_graph_of_a_signature(seen):
    def body(x):
        a = 1 if x[0] > 0 else 2
        b = 10 if x[1] > 0 else 20
        c = 100 if x[2] > 0 else 200
        d = 1000 if x[3] > 0 else 2000
        e = 10000 if x[4] > 0 else 20000
        return x * (a + b + c + d + e)

    f = tracehost.function(body, autograph=False)
    with assert_traces(f, 16):
        for _ in range(2):
            for k in range(32):
                x = torch.tensor([1.0 if k >> bit & 1 else -1.0 for bit in range(5)])
                assert torch.equal(f(x), body(x))
    (said,) = warned(seen)
    assert ", and 16 graphs for other values serve these arguments. Keep" in said
    stats = f.stats()
    assert stats["eager"] + stats["hits"] + stats["traces"] == 64


def test_the_body_runs_once_with_its_effects(seen):
    log, total = [], torch.zeros(2)

    def body(x, out):
        total.add_(x)
        log.append(len(log))
        k = NAMES[int(x[0])]
        out.mul_(2).add_(k)
        return {"k": k, "y": x + torch.rand(2)}

    f = tracehost.function(body, watch=False)
    expected_total, out, expected_out = torch.zeros(2), torch.ones(2), torch.ones(2)
    with assert_traces(f, 8):
        for n in range(30):
            torch.manual_seed(n)
            got = f(x_of(n), out)
            torch.manual_seed(n)
            expected_total.add_(x_of(n))
            expected_out.mul_(2).add_(n)
            assert got["k"] == n and torch.equal(got["y"], x_of(n) + torch.rand(2))
            assert torch.equal(total, expected_total) and torch.equal(out, expected_out)
        assert log == list(range(30))


def test_inside_a_nested_function(seen):
    inner = tracehost.function(picked)

    @tracehost.function
    def outer(x):
        y = inner(x)
        return y + inner(x + 1)

    for n in range(20):
        assert torch.equal(outer(x_of(n)), picked(x_of(n)) + picked(x_of(n) + 1))
    assert outer.tracing_count() <= 8 and outer.stats()["eager"] >= 12
    assert len(warned(seen)) <= 2  # one for the outer one, one for calls of the inner one


def in_a_while(x):
    while x.sum() < 50:
        x = x + NAMES[int(x[0])] + 1
    return x


def in_an_if(x):
    if x[1] > 0:
        y = x * NAMES[int(x[0])]
    else:
        y = x - 1
    return y


def in_a_for(x):
    rows = []
    for row in x.abs():
        rows.append(row * NAMES[int(row)])
    return rows


def with_numbers(x):
    try:
        k = NAMES[int(x[0])]
    finally:
        x = x + 1
    return {"k": k, "x": x, "most": x.max().item()}


@pytest.mark.parametrize("body", [in_a_while, in_an_if, in_a_for, with_numbers])
def test_inside_control_flow(body, seen):
    f = tracehost.function(body)
    for n in range(20):
        for sign in (1.0, -1.0):
            x = torch.tensor([float(n), sign])
            assert str(f(x.clone())) == str(body(x.clone()))
    assert f.stats()["eager"] > 0 and len(warned(seen)) == 1


def test_under_eight_threads():
    f = tracehost.function(picked)
    failures = []

    with assert_traces(f, 8):

        def run(first):
            try:
                for n in range(first, first + 40):
                    if not torch.equal(f(x_of(n % 50)), picked(x_of(n % 50))):
                        failures.append(n)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(5 * k,)) for k in range(8)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert failures == []
    stats = f.stats()
    assert stats["hits"] + stats["eager"] + stats["traces"] == stats["calls"] == 320


def test_a_warning_that_is_an_error_is_raised_after_the_body():
    log = []

    @tracehost.function(watch=False)
    def f(x, out):
        out.copy_(x * NAMES[int(x[0])])
        log.append(1)
        return out + 1

    out = torch.zeros(2)
    for n in range(8):
        f(x_of(n), out)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.TraceWarning)
        with pytest.raises(tracehost.TraceWarning, match="which already has 8 graphs"):
            f(x_of(8), out)
        assert torch.equal(out, x_of(8) * 8) and len(log) == 9
        for n in range(9, 30):
            assert torch.equal(f(x_of(n), out), x_of(n) * n + 1)
    assert len(log) == 30


def test_a_float_read_behind_a_check(seen):
    def body(x):
        if {True: "up", False: "down"}[bool(x.sum() > 0)] == "up":
            return x * 2
        return x * {-1.5: 3.0, -2.5: 4.0}[x[0].item()]

    f = tracehost.function(body)
    for first in (1.0, -1.5, 2.0, -2.5, -1.5, 3.0):
        x = torch.tensor([first, 0.0])
        assert torch.equal(f(x), body(x))
    assert not warned(seen)
    stats = f.stats()
    assert (stats["traces"], stats["hits"], stats["eager"]) == (4, 2, 0)
    assert (
        "needs the value of a float (a dict, a set or hash())" in tracehost.events(f)[-1].notes[0]
    )


def test_an_aliased_out_argument(seen):
    def body(a, b):
        k = NAMES[int(b[0])]
        torch.add(a, b, out=a)
        torch.mul(a, k, out=b)
        return a

    f = tracehost.function(body)
    for n in range(20):
        (a, b), (c, d) = ((torch.ones(2), x_of(n)) for _ in range(2))
        got = f(a, b)
        assert got is a and body(c, d) is c
        assert torch.equal(a, c) and torch.equal(b, d)
    same = x_of(3)
    assert f(same, same) is same


REJECTED = {
    "a value read": lambda x: x * x.sum().numpy().tolist(),
    "a capture": lambda x: x + torch.from_numpy(x.numpy() * 2),
    "a trace": lambda x: seeds(x),
    "a result": lambda x: (row * 2 for row in x),
    "a class": lambda x: x.as_subclass(Tagged),
}


class Tagged(torch.Tensor):
    pass


def seeds(x):
    torch.manual_seed(3)
    return x + torch.rand(2)


@pytest.mark.parametrize("kind", REJECTED)
def test_another_outcome_that_has_no_graph(kind, seen):
    ran = []

    def body(x):
        if bool({True: 1, False: 0}[bool(x.sum() > 0)]):
            return x * 2
        ran.append(kind)
        return REJECTED[kind](x)

    def value(result):
        return [t.tolist() for t in result] if kind == "a result" else result.tolist()

    f = tracehost.function(body, watch=False)
    assert torch.equal(f(torch.ones(2)), torch.ones(2) * 2)
    for k in range(3):
        torch.manual_seed(k)
        got = f(torch.full((2,), -1.0 - k))
        torch.manual_seed(k)
        assert value(got) == value(body(torch.full((2,), -1.0 - k)))
        assert type(got) is type(body(torch.full((2,), -1.0 - k)))
    assert ran == [kind] * 9
    assert torch.equal(f(torch.ones(2)), torch.ones(2) * 2)
    stats = f.stats()
    assert (stats["traces"], stats["hits"], stats["eager"]) == (1, 1, 3)
    assert len(warned(seen)) == 1


def test_another_outcome_that_changes_an_argument_for_good(seen):
    def body(x, objects):
        if {True: 1, False: 0}[bool(x.sum() > 0)]:
            return x * 2
        objects.append(threading.Lock())
        return x

    f = tracehost.function(body)
    f(torch.ones(2), [])
    for _ in range(3):
        objects = []
        assert torch.equal(f(-torch.ones(2), objects), -torch.ones(2)) and len(objects) == 1
    assert (f.stats()["traces"], f.stats()["eager"]) == (1, 3) and len(warned(seen)) == 1


def test_a_first_trace_raises():
    f = tracehost.function(lambda x: x * x.numpy().sum())
    for _ in range(2):
        with pytest.raises(tracehost.ValueReadError, match=r"Tensor\.numpy"):
            f(torch.ones(2))


def test_a_first_trace_of_other_arguments_runs_as_plain_python_beyond_the_limit(seen):
    f = tracehost.function(picked)
    with assert_traces(f, 8):
        for n in range(8):
            f(x_of(n))
        x = torch.tensor([9.0, 1.0, 2.0])
        assert torch.equal(f(x), picked(x)) and torch.equal(f(x), picked(x))
        assert len(warned(seen)) == 1


def test_an_exception_of_the_body_is_its_own(seen):
    def body(x):
        return {0: x, 1: x + 1}[int(x[0])]

    f = tracehost.function(body)
    f(x_of(0)), f(x_of(1))
    for _ in range(3):
        with pytest.raises(KeyError, match="7"):
            f(x_of(7))
    assert torch.equal(f(x_of(1)), x_of(1) + 1)


def test_graphs_that_mostly_fail_are_tried_at_every_64th_call(seen):
    """A check that fails costs the start of a graph."""

    def body(x):
        y = x.cumsum(0)
        return y * NAMES[int(y[-1])]

    f = tracehost.function(body)
    for n in range(8):
        f(x_of(n))
    for n in range(200):
        x = x_of(10 + n % 80)
        assert torch.equal(f(x), body(x))
    stats = f.stats()
    assert (stats["traces"], stats["eager"]) == (8, 200)
    for n in range(200):
        x = x_of(n % 8)
        assert torch.equal(f(x), body(x))
    assert f.stats()["hits"] >= 200 - 64


def test_under_w_error_of_the_whole_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, tracehost\n"
        "names = list(range(100))\n"
        "@tracehost.function\n"
        "def f(x):\n"
        "    return x * names[int(x[0])]\n"
        "for n in range(12):\n"
        "    try:\n"
        "        f(torch.tensor([float(n)]))\n"
        "    except tracehost.TraceWarning:\n"
        "        print('warned', n)\n"
        "    except tracehost.RetraceWarning:\n"
        "        pass\n"
        "print(f.stats()['eager'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "warned 8\n4\n"


# ---- where no body can run -----------------------------------------------------------------------


def unstaged(x):
    if x.sum() > 0:  # here
        return x * 2
    return x - 1


def test_a_stance_that_forbids_a_miss_names_the_place_and_the_value():
    f = tracehost.function(unstaged, autograph=False)
    f(torch.ones(2))
    with tracehost.no_retrace():
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
        with pytest.raises(tracehost.TraceError) as error:
            f(-torch.ones(2))
    assert (
        "Of one that would, a number that the graph was made for has another value: False, not True, at "
        f"{place(unstaged)}. Call the function with such arguments before you set this stance"
    ) in str(error.value)


def test_a_stance_that_forbids_a_miss_names_the_value_of_a_counter():
    class Steps:
        n = 0

        @tracehost.function
        def step(self, x):
            self.n += 1
            if self.n % 10 == 0:  # here
                return x * 2
            return x

    steps = Steps()
    for _ in range(4):
        steps.step(torch.ones(1))
    line = Steps.step.python_function.__code__.co_firstlineno + 3
    with tracehost.no_retrace(), pytest.raises(tracehost.TraceError) as error:
        for _ in range(6):
            steps.step(torch.ones(1))
    assert f"has another value: True, not False, at test_beyond_limits.py:{line}. Call" in str(
        error.value
    )


def test_a_concrete_function_names_the_place_and_the_value():
    f = tracehost.function(unstaged, autograph=False)
    f(torch.ones(2))
    with pytest.warns(tracehost.TraceWarning) as told:
        concrete = f.get_concrete_function(tracehost.TensorSpec([2]))
    line = place(unstaged)
    assert concrete.checks == (f"True at {line}",)
    (said,) = told
    assert str(said.message) == (
        f"a graph of {f.name} serves only calls in which Python reads these values: True at {line}. A call with another "
        "one raises an error. Call the Function itself, which has a graph for each value, or turn autograph on: a graph "
        "then has both sides."
    )
    assert torch.equal(concrete(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(
        tracehost.ValueReadError, match=f"has another value: False, not True, at {line}"
    ):
        concrete(-torch.ones(2))


def test_an_archive_lists_what_has_one_outcome(tmp_path):
    f = tracehost.function(unstaged, autograph=False)
    f(torch.ones(2))
    with pytest.warns(
        tracehost.TraceWarning, match=f"True at {place(unstaged)}.* and save it again"
    ):
        f.save(tmp_path / "one.tracehost")
    loaded = tracehost.load(tmp_path / "one.tracehost")["unstaged"]
    with pytest.raises(tracehost.SignatureError, match="has another value: False, not True"):
        loaded(-torch.ones(2))
    f(-torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".* have no copy in TorchScript")
        f.save(tmp_path / "both.tracehost")
    loaded = tracehost.load(tmp_path / "both.tracehost")["unstaged"]
    assert torch.equal(loaded(-torch.ones(2)), torch.full((2,), -2.0))


def test_warm_up_takes_a_call_for_each_outcome():
    f = tracehost.function(unstaged, autograph=False)
    made = f.warm_up((torch.ones(2),), (-torch.ones(2),))
    line = place(unstaged)
    assert [concrete.checks for concrete in made] == [(f"True at {line}",), (f"False at {line}",)]
    with tracehost.no_retrace():
        for sign in (1, -1):
            x = torch.ones(2) * sign
            assert torch.equal(f(x), unstaged(x))
