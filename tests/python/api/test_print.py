"""tracehost.print: prints at each run of the graph."""

import collections
import contextlib
import io
import logging
import sys

import pytest
import torch
import tracehost
from tracehost import TensorSpec
from tracehost import print as tprint
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0])
Point = collections.namedtuple("Point", "x y")


def n(value):
    return torch.tensor(value)


class Named:
    def __str__(self):
        return "named"


def branches(x, k):
    if k > 1:
        tprint("more", x)
    else:
        tprint("less", k)


def loop(x, k):
    for i in range(k):
        x = x * 2
        tprint(i, x, i * 0.5, i > 0)


inner = tracehost.function(lambda y: tprint("inner", y))


def nested(x, k):
    inner(x * k)


def outer_values(x, k):
    for i in range(k):
        tprint(i, x, k, k.item())
        if k > 2:
            tprint([x, k])


PROGRAMS = {
    "tensors": lambda x, k: tprint("x is", x, x * k),
    "containers": lambda x, k: tprint([x, (k, 1)], {"a": x, "b": "text"}, Point(k, 2.5)),
    "numbers of the graph": lambda x, k: tprint(k.item(), [k.item() / 2], k.item() > 1),
    "Python's values": lambda x, k: tprint(None, 1, 2.5, "a", True, x.dtype, x.device, Named()),
    "sizes": lambda x, k: tprint(x.shape, x.shape[0], x.size()),
    "nothing": lambda x, k: tprint(),
    "separators": lambda x, k: tprint(x, k, 3, sep="|", end=".\n"),
    "no summary": lambda x, k: tprint(torch.arange(3) * k),
    "with gradients": lambda x, k: tprint(x * 2, [x]),
    "branches": branches,
    "loop": loop,
    "nested": nested,
    "what a loop does not change": outer_values,
}


def printed(f, calls, capsys):
    capsys.readouterr()
    for k in calls:
        f(X.clone().requires_grad_(), n(k))
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_run_prints_what_plain_python_does(name, autograph, capsys):
    if not autograph and name in ("branches", "loop", "what a loop does not change"):
        pytest.skip("if and for on a tensor")
    f, calls = PROGRAMS[name], (2, 0, 1, 3)
    staged = tracehost.function(f, autograph=autograph)
    expected = printed(f, calls, capsys)
    with assert_traces(staged, 2):
        assert printed(staged, calls, capsys) == expected and expected
        with torch.no_grad():
            assert printed(staged, calls, capsys) == expected


def test_the_text(capsys):
    f = tracehost.function(lambda x, k: tprint("x", x, [x, {"k": k}], k.item(), x.shape))
    f(X, n(2))
    f(X * 2, n(5))
    assert capsys.readouterr().err == (
        "x tensor([1., 2.]) [tensor([1., 2.]), {'k': tensor(2)}] 2 torch.Size([2])\n"
        "x tensor([2., 4.]) [tensor([2., 4.]), {'k': tensor(5)}] 5 torch.Size([2])\n"
    )


def test_a_size_that_may_differ(capsys):
    f = tracehost.function(
        lambda x: tprint(x.shape[0], x.shape), input_signature=[TensorSpec([None])]
    )
    with assert_traces(f, 1):
        f(torch.ones(2))
        f(torch.ones(3))
        assert capsys.readouterr().err == "2 (2,)\n3 (3,)\n"


def test_a_size_that_may_differ_in_a_loop(capsys):
    @tracehost.function(input_signature=[TensorSpec([None]), TensorSpec([], "int64")])
    def f(x, k):
        for i in range(k):
            tprint(i, x.shape[0])

    with assert_traces(f, 1):
        f(torch.ones(2), n(1))
        f(torch.ones(3), n(2))
        assert capsys.readouterr().err == "0 2\n0 3\n1 3\n"


def test_it_is_in_its_place(capsys):
    @tracehost.function
    def f(x):
        tprint("before", x)
        x.add_(1)
        tprint("after", x)
        x.add_(1)

    for _ in range(2):
        f(X.clone())
    once = "before tensor([1., 2.])\nafter tensor([2., 3.])\n"
    assert capsys.readouterr().err == once * 2


def test_summaries(capsys):
    x = torch.arange(10)
    many = torch.arange(2000)
    for call in (lambda f: f(), lambda f: tracehost.function(f)()):
        call(lambda: tprint(x, summarize=2))
        call(lambda: tprint(many, summarize=-1))
        call(lambda: tprint(many))
        text = capsys.readouterr().err.splitlines()
        assert text[0] == "tensor([0, 1,  ..., 8, 9])" and text[-1] == str(many)
        assert len(text) > 100 and "..." not in "".join(text[1:-1])
    assert torch._tensor_str.PRINT_OPTS.edgeitems == 3


def test_where_it_goes(tmp_path, capsys, caplog):
    path = tmp_path / "log.txt"
    kept = io.StringIO()

    @tracehost.function
    def f(x):
        tprint(x, output_stream=sys.stdout)
        tprint("err", output_stream=sys.stderr)
        tprint(x, 1, output_stream=f"file://{path}")
        tprint(x, output_stream=kept)
        tprint("log", x, output_stream=logging.getLogger("here").warning)

    for k in (1, 2):
        f(X * k)
    texts = [str(X), str(X * 2)]
    out, err = capsys.readouterr()
    assert out.splitlines() == texts and err.splitlines() == ["err", "err"]
    assert path.read_text().splitlines() == [f"{t} 1" for t in texts]
    assert kept.getvalue().splitlines() == texts
    assert [r.getMessage() for r in caplog.records] == [f"log {t}" for t in texts]


def test_the_stream_is_that_of_the_run():
    f = tracehost.function(lambda x: tprint(x))
    with assert_traces(f, 1):
        f(X)
        with contextlib.redirect_stderr(io.StringIO()) as caught:
            f(X)
        assert caught.getvalue() == f"{X}\n"


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"output_stream": 3},
            "tracehost.print's output_stream must have a write(), as sys.stdout has, or be 'file://path' or a function of "
            "the text, got 3",
        ),
        (
            {"output_stream": "log.txt"},
            "tracehost.print's output_stream must have a write(), as sys.stdout has, or be 'file://path' or a function of "
            "the text, got 'log.txt'",
        ),
        ({"summarize": 2.0}, "tracehost.print's summarize is an int or None, got 2.0"),
    ],
)
def test_wrong_use(options, text, traced):
    def f(x):
        tprint(x, **options)

    with pytest.raises(TypeError) as caught:
        (tracehost.function(f) if traced else f)(X)
    assert str(caught.value).split("\n")[0] == text


def test_an_object_that_holds_a_traced_tensor():
    class Box:
        def __init__(self, x):
            self.x = x

        def __repr__(self):
            return f"Box({self.x})"

    def f(x):
        tprint(Box(x * 2))

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(TypeError) as caught:
        tracehost.function(f)(X)
    assert str(caught.value).split("\n")[0] == (
        f"tracehost.print at test_print.py:{line} is given a Box that holds a traced tensor: its text is made at "
        "the trace, where that has no value to show. Give the tensors themselves."
    )


def test_requests_print_nothing(capsys):
    f = tracehost.function(PROGRAMS["tensors"])
    concrete = f.get_concrete_function(TensorSpec([2]), TensorSpec([], "int64"))
    assert capsys.readouterr().err == ""
    concrete(X, n(2))
    assert capsys.readouterr().err == "x is tensor([1., 2.]) tensor([2., 4.])\n"


def test_executing_eagerly():
    seen = []

    def f(x):
        seen.append(tracehost.executing_eagerly())
        with tracehost.init_scope():
            seen.append(tracehost.executing_eagerly())
        tracehost.py_function(lambda: seen.append(tracehost.executing_eagerly()), [], None)
        return x

    staged = tracehost.function(f)
    staged(X)
    assert seen == [False, True, True]
    staged(X)
    assert seen[3:] == [True]
    with tracehost.run_functions_eagerly(True):
        staged(X)
    assert seen[4:] == [True, True, True] and tracehost.executing_eagerly() is True
