"""Special methods of a class that the body defines, which C code calls, and flags of torch.nn.functional."""

import pytest
import torch
import torch.nn.functional as F
import tracehost


def truth(x, n):
    class Positive:
        def __bool__(self):
            return bool(n > 1)

    return "yes" if Positive() else "no"


def length(x, n):
    class Rows:
        def __len__(self):
            return int(n)

    return x * len(Rows())


def index(x, n):
    class Place:
        def __index__(self):
            return int(n)

    return [10, 20, 30, 40][Place()]


def containment(x, n):
    class Below:
        def __contains__(self, value):
            return bool(n > value)

    return 1 in Below()


def number(x, n):
    class Number:
        def __float__(self):
            return float(int(n))

    return float(Number())


def iterator(x, n):
    class Counting:
        def __init__(self):
            self.i = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.i >= n:
                raise StopIteration
            self.i += 1
            return self.i

    return [x * i for i in Counting()]


def dropout(x, n):
    return F.dropout(x, 0.5, training=bool(n > 1))


def dropout_by_place(x, n):
    return F.dropout(x, 0.5, bool(n > 1))


def batch_norm(x, n):
    return F.batch_norm(x[:, None], torch.zeros(1), torch.ones(1), training=bool(n > 1))


def one_sample(x, n):
    return F.gumbel_softmax(x, hard=bool(n > 1))


BODIES = [
    truth,
    length,
    index,
    containment,
    number,
    iterator,
    dropout,
    dropout_by_place,
    batch_norm,
    one_sample,
]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_as_eager(body):
    f = tracehost.function(body)
    for n in (2, 0, 3, 2, 1, 0):
        results = []
        for called in (body, f):
            torch.manual_seed(n)
            results.append(called(torch.linspace(-1, 1, 4), torch.tensor(n)))
        assert repr(results[1]) == repr(results[0])


@pytest.mark.parametrize("body", [truth, iterator, dropout], ids=lambda f: f.__name__)
def test_no_graph_of_specs(body):
    with pytest.raises(tracehost.ValueReadError, match=r"test_called_by_c_code\.py:\d+"):
        tracehost.function(body).get_concrete_function(
            tracehost.TensorSpec([None]), tracehost.TensorSpec([], torch.int64)
        )
