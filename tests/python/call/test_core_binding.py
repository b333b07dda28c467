"""Arguments are bound to parameters before calls are compared, by Python's own rules."""

import gc
import inspect
import weakref

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def plain(x, y=2, *, scale=1.0, bias=None):
    result = x * y * scale
    return result if bias is None else result + bias


def positional_only(x, y=2, /, z=3):
    return x * y + z


def variadic(x, *rest, **named):
    for r in rest:
        x = x + r
    for name, value in named.items():
        x = x * value + len(name)
    return x


def test_all_spellings_of_a_call_share_a_specialization():
    f = tracehost.function(plain)
    with assert_traces(f, 1):
        for call in (
            lambda: f(X),
            lambda: f(x=X),
            lambda: f(X, 2),
            lambda: f(X, y=2),
            lambda: f(y=2, x=X),
            lambda: f(X, scale=1.0),
            lambda: f(X, 2, bias=None, scale=1.0),
            lambda: f(*[X, 2], **{"scale": 1.0}),
            lambda: f(**{"x": X}),
        ):
            assert torch.equal(call(), plain(X))
    with assert_traces(f, 2):
        assert torch.equal(f(X, 3), plain(X, 3)) and torch.equal(f(X, bias=X), plain(X, bias=X))


def test_names_that_are_not_interned_bind():
    f = tracehost.function(plain)
    with assert_traces(f, 1):
        f(X)
        name = "".join(["sc", "ale"])
        assert torch.equal(f(X, **{name: 1.0}), plain(X))


def test_positional_only_parameters():
    f = tracehost.function(positional_only)
    with assert_traces(f, 1):
        assert torch.equal(f(X, 2, z=3), f(X))
    with pytest.raises(TypeError):
        f(X, y=2)

    def collects(x, /, **named):
        return x * named["x"]

    g = tracehost.function(collects)
    with assert_traces(g, 1):
        for _ in range(2):
            assert torch.equal(g(X, x=3.0), X * 3)


def test_extra_positional_arguments():
    f = tracehost.function(variadic)
    for count, rest in enumerate([(), (1,), (1, X), (X, 1)], 1):
        for _ in range(2):
            assert torch.equal(f(X, *rest), variadic(X, *rest))
        assert f.tracing_count() == count


def test_extra_keywords_by_name_and_order():
    f = tracehost.function(variadic)
    with assert_traces(f, 4):
        for count, named in enumerate([{"a": 2.0}, {"b": 2.0}, {"a": 2.0, "bb": X}], 1):
            for _ in range(2):
                assert torch.equal(f(X, **named), variadic(X, **named))
            assert f.tracing_count() == count
        f(X, bb=X, a=2.0)  # the body may see the order, as that of a dict
    assert torch.equal(f(X, bb=X, a=2.0), variadic(X, bb=X, a=2.0))


def mixed(a, b=2.0, /, *rest, c=3.0, **named):
    result = a * b + c
    for i, r in enumerate(rest):
        result = result + i * r
    for name, value in named.items():
        result = result * value + ord(name)
    return result


def test_each_form_of_a_call_is_bound_as_python_does_again_and_again():
    f = tracehost.function(mixed)
    calls = (
        lambda g, x: g(x),
        lambda g, x: g(x, 4.0),
        lambda g, x: g(x, 4.0, x),
        lambda g, x: g(x, 4.0, x, x + 1),
        lambda g, x: g(x, c=5.0),
        lambda g, x: g(x, a=5.0, b=6.0),
        lambda g, x: g(x, b=6.0, a=5.0),
        lambda g, x: g(x, 4.0, x, d=x, c=1.0),
        lambda g, x: g(x, 4.0, x, c=x, d=1.0),
        lambda g, x: g(*[x] * 40, e=2.0),
    )
    with assert_traces(f, len(calls)):
        for _ in range(3):
            for call in calls:
                torch.testing.assert_close(call(f, X), call(mixed, X))
                torch.testing.assert_close(call(f, X + 1), call(mixed, X + 1))


def test_extra_arguments_differ_from_a_tuple_of_them():
    f = tracehost.function(lambda *args: len(args))
    with assert_traces(f, 3):
        assert [f(X, X), f((X, X)), f([X, X]), f(X, X)] == [2, 1, 1, 2]


def test_more_parameters_than_fit_inline():
    names = [f"p{i}" for i in range(40)]
    scope = {"torch": torch}
    exec(
        f"def wide({', '.join(n + '=1.0' for n in names)}):\n    return {' + '.join(names)}", scope
    )
    f = tracehost.function(scope["wide"])
    with assert_traces(f, 1):
        for _ in range(2):
            assert torch.equal(f(X, p39=X, p7=X), X * 3 + 37)


def mistakes():
    return [
        ((), {}),
        ((X, 1, 2), {}),
        ((X,), {"x": X}),
        ((X,), {"unknown": 1}),
        ((), {"y": 1}),
    ]


@pytest.mark.parametrize("args, kwargs", mistakes())
def test_arguments_that_do_not_fit_are_a_type_error_of_pythons_words(args, kwargs):
    f = tracehost.function(plain)
    with pytest.raises(TypeError) as expected:
        inspect.signature(plain).bind(*args, **kwargs)
    with assert_traces(f, 1):
        for _ in range(2):
            with pytest.raises(TypeError) as got:
                f(*args, **kwargs)
            assert str(got.value) == f"plain() {expected.value}"
            f(X)


def test_a_default_tensor_is_an_input_like_any_other():
    default = torch.ones(3)

    def body(x, w=default):
        return x * w

    f = tracehost.function(body)
    with assert_traces(f, 1):
        assert torch.equal(f(X), X)
        default.mul_(2)
        assert torch.equal(f(X), X * 2)
    assert torch.equal(f(X, torch.full((3,), 5.0)), X * 5)


def test_a_default_tensor_and_another_are_both_right():
    """The default is reached by a path, too (`__defaults__`): being it is part of the alias pattern."""

    def body(x, w=torch.ones(3)):
        return x * w

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for _ in range(2):
            assert torch.equal(f(X), X)
            assert torch.equal(f(X, torch.full((3,), 5.0)), X * 5)


def test_a_mutable_default_is_compared_by_its_items():
    def body(x, factors=[2.0]):
        return x * factors[0]

    f = tracehost.function(body)
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 2)
        assert torch.equal(f(X, [2.0]), X * 2)
    body.__defaults__[0][0] = 3.0
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 3)


def test_a_default_that_changes_in_place_is_compared_by_what_it_holds():
    word = bytearray(b"a")

    def body(x, word=word):
        return x + len(word)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        assert torch.equal(f(X), X + 1) and torch.equal(f(X, word), X + 1)
    word += b"b"
    with assert_traces(f, 1):
        assert torch.equal(f(X), X + 2)


def test_another_object_in_the_place_of_a_default_is_compared_by_value():
    def body(x, scale=1.5, mode="sum", flag=True, big=10**30, none=None):
        return x * scale + len(mode) + flag + float(big % 7)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        expected = f(X)
        assert torch.equal(
            f(X, float("1.5"), "".join(["s", "um"]), big=int("1" + "0" * 30)), expected
        )
    with assert_traces(f, 4):
        assert torch.equal(f(X, scale=2.5), body(X, 2.5))
        assert torch.equal(f(X, mode="mean"), body(X, mode="mean"))
        assert torch.equal(f(X, flag=1), body(X, flag=1))
        assert torch.equal(f(X, big=10**30 + 1), body(X, big=10**30 + 1))
    with assert_traces(f, 0):
        assert torch.equal(f(X), expected)


def test_a_function_in_its_own_default_is_collected():
    class Holder:
        pass

    holder = Holder()

    def body(x, holder=holder, scale=2.0):
        return x * scale

    holder.function = tracehost.function(body)
    assert torch.equal(holder.function(X), 2 * X) and torch.equal(holder.function(X), 2 * X)
    gone = weakref.ref(holder)
    del holder, body
    gc.collect()
    assert gone() is None


def test_no_arguments_at_all():
    f = tracehost.function(lambda: torch.ones(2) * 3)
    with assert_traces(f, 1):
        for _ in range(2):
            assert torch.equal(f(), torch.full((2,), 3.0))
    with pytest.raises(TypeError, match="too many positional arguments"):
        f(1)


def test_builtins_and_torch_functions():
    f = tracehost.function(torch.nn.functional.softmax)
    g = tracehost.function(torch.add)
    for _ in range(2):
        assert torch.equal(f(X, dim=0), X.softmax(0))
        assert torch.equal(g(X, X, alpha=2), X * 3)
    assert f.tracing_count() == g.tracing_count() == 1
