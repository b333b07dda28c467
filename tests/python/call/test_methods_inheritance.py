"""Methods as Functions: inheritance, super(), class and static methods, properties."""

import functools

import pytest
import torch
import tracehost
from python_versions import ONE_BELOW_CLASSMETHOD
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


# ---- inheritance ---------------------------------------------------------------------------------


class Base:
    k = 2.0

    @tracehost.function
    def call(self, x):
        return x * self.k

    @classmethod
    @tracehost.function
    def above(cls, x):
        return x * cls.k

    @tracehost.function
    @classmethod
    def below(cls, x):
        return x + cls.k

    @staticmethod
    @tracehost.function
    def static_above(x):
        return x * 5

    @tracehost.function
    @staticmethod
    def static_below(x):
        return x * 6

    @property
    @tracehost.function
    def doubled(self):
        return X * self.k

    @tracehost.function
    @property
    def tripled(self):
        "Three of it."
        return X * self.k * 1.5

    @tripled.setter
    def tripled(self, k):
        self.k = k

    @functools.cached_property
    @tracehost.function
    def cached(self):
        return X * self.k + 1

    @tracehost.function
    @functools.cached_property
    def cached_below(self):
        return X * self.k + 2


class Sub(Base):
    k = 3.0

    @tracehost.function
    def call(self, x):
        return super().call(x) + 1


def test_super_and_overriding():
    base, sub = Base(), Sub()
    for _ in range(2):
        assert torch.equal(base.call(X), X * 2) and torch.equal(sub.call(X), X * 3 + 1)
        assert torch.equal(super(Sub, sub).call(X), X * 3)
        assert torch.equal(Base.call(sub, X), X * 3)
    assert sub.call.tracing_count() == super(Sub, sub).call.tracing_count() == 1
    assert sub.call.__func__ is not super(Sub, sub).call.__func__


def test_class_and_static_methods_in_either_order():
    for _ in range(2):
        for cls in (Base, Sub):
            for owner in (cls, cls()):
                assert torch.equal(owner.above(X), X * cls.k)
                assert torch.equal(owner.below(X), X + cls.k)
                assert torch.equal(owner.static_above(X), X * 5)
                assert torch.equal(owner.static_below(X), X * 6)
    assert Base.static_above.tracing_count() == Sub.static_below.tracing_count() == 1
    assert Base.below.tracing_count() == Sub.below.tracing_count() == 1
    assert isinstance(vars(Base)["below"], classmethod)
    count = Base.above.tracing_count()
    assert count == Sub.above.tracing_count() == (2 if ONE_BELOW_CLASSMETHOD else 1)


def test_properties():
    base, sub = Base(), Sub()
    for _ in range(2):
        assert torch.equal(base.doubled, X * 2) and torch.equal(sub.doubled, X * 3)
    assert base.cached is base.cached and torch.equal(sub.cached, X * 3 + 1)
    assert Base.__dict__["doubled"].fget.tracing_count() == 2


def test_properties_below_the_decorator():
    base = Base()
    for k in (2.0, 2.0, 4.0):
        base.tripled = k
        assert torch.equal(base.tripled, X * k * 1.5)
    assert Base.tripled.__doc__ == "Three of it."
    assert Base.tripled.fget.tracing_count() == 2
    assert base.cached_below is base.cached_below and torch.equal(base.cached_below, X * 4 + 2)
    with pytest.raises(TypeError, match="<property object at .*> is not a callable object"):
        tracehost.function(property())


def test_a_decorated_call_operator():
    class Adder:
        n = 3.0

        @tracehost.function
        def __call__(self, x):
            return x + self.n

    a = Adder()
    f = tracehost.function(Adder())
    for _ in range(2):
        assert torch.equal(a(X), X + 3) and torch.equal(f(X), X + 3)
    assert a.__call__.tracing_count() == 1 and f.tracing_count() == 1


def test_a_method_defined_by_assignment_and_by_a_function_of_the_module():
    @tracehost.function
    def scaled(self, x):
        return x * self.k

    class One:
        k = 2.0
        call = scaled

    class Two:
        k = 3.0

    Two.call = scaled
    one, two = One(), Two()
    with assert_traces(one.call, 1):
        for _ in range(2):
            assert torch.equal(one.call(X), X * 2) and torch.equal(two.call(X), X * 3)
    one.call = tracehost.function(lambda x: x * 7)  # the instance's own wins
    assert torch.equal(one.call(X), X * 7)
