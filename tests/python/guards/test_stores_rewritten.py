"""Lists, deques and dicts whose elements the body moves, takes away and adds: hits leave what eager leaves."""

import collections

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def tensors(n):
    return [torch.full((2,), float(i)) for i in range(n)]


def append_and_pop(x, h):
    h.append(x * 1)
    h.pop(0)
    return torch.stack(h).sum(0)


def append_and_delete(x, h):
    h.append(x * 1)
    del h[0]
    return h[0] - h[-1]


def assign_slice(x, h):
    h[:] = h[1:] + [x * 1]
    return h[0] * 1


def delete_slice(x, h):
    h.extend([x * 1, x * 2])
    del h[:2]
    return sum(h)


def insert_in_front(x, h):
    h.insert(0, x * 1)
    h.pop()
    return h[0] - h[1]


def clear_and_fill(x, h):
    h.clear()
    h.append(x * 1)
    h.append(x * 2)
    return x + 1


def rotate(x, h):
    h.rotate(1)
    return h[0] + x


def pop_left(x, h):
    y = h.popleft()
    h.append(x * 1)
    return y + x


def push_out(x, h):
    h.append(x * 1)
    return sum(h)


def push_out_unread(x, h):
    h.append(x * 1)
    return x * 2


def push_tuple(x, h):
    h.append((x * 1, x.sum().item()))
    return x * 2


def numbers(x, h):
    h.append(x.sum().item())
    del h[0]
    return x * sum(h)


def numbers_unread(x, h):
    h.append(x.sum().item())
    h.pop(0)
    return x * 2


def pop_and_put_again(x, h):
    value = h.pop("a")
    h["a"] = value + x
    return h["a"] * 2


def move_to_end(x, h):
    h.move_to_end("a", last=list(h)[0] == "a")
    return h["a"] + x


def new_order(x, h):
    h.clear()
    h["b"] = x * 1
    h["a"] = x * 2
    return x + 1


LIST, DEQUE, FULL = (
    lambda: tensors(3),
    lambda: collections.deque(tensors(3)),
    lambda: collections.deque(tensors(3), 3),
)
NUMBERS = lambda: [0.0, 1.0, 2.0]  # noqa: E731
DICT = lambda: dict(zip("ab", tensors(2)))  # noqa: E731
ORDERED = lambda: collections.OrderedDict(zip("abc", tensors(3)))  # noqa: E731
# the body, what it is given at first, and how often it is traced in 14 calls
CASES = [
    (append_and_pop, LIST, 1),
    (append_and_delete, LIST, 1),
    (assign_slice, LIST, 1),
    (delete_slice, LIST, 1),
    (insert_in_front, LIST, 1),
    (clear_and_fill, LIST, 2),
    (rotate, DEQUE, 1),
    (pop_left, DEQUE, 1),
    (push_out, FULL, 1),
    (push_out_unread, FULL, 1),
    (push_out_unread, lambda: collections.deque(maxlen=4), 1),
    (push_tuple, lambda: collections.deque(maxlen=4), 1),
    (numbers, NUMBERS, 2),
    (numbers_unread, NUMBERS, 2),
    (pop_and_put_again, DICT, 1),
    (move_to_end, ORDERED, 2),
    (new_order, DICT, 2),
]


def content(h):
    items = list(h.items()) if isinstance(h, dict) else list(enumerate(h))
    return [(k, v.tolist() if isinstance(v, torch.Tensor) else str(v)) for k, v in items]


@pytest.mark.parametrize("body, first, traces", CASES, ids=[c[0].__name__ for c in CASES])
def test_hits_leave_what_eager_leaves(body, first, traces):
    class Box:
        pass

    box, eager = Box(), first()
    box.h = first()

    @tracehost.function
    def f(x):
        return body(x, box.h)

    held = box.h
    with assert_traces(f, traces):
        for n in range(14):
            x = torch.full((2,), float(n))
            before = list(box.h.values()) if isinstance(box.h, dict) else list(box.h)
            assert torch.equal(f(x), body(x, eager)), n
            assert content(box.h) == content(eager), n
            assert box.h is held
            for kept, value in zip(before[1:], box.h if isinstance(box.h, list) else []):
                if body is append_and_pop:
                    assert kept is value  # the elements keep their identity


def test_what_is_in_two_places_is_told_apart():
    """Where the trace found one object twice, no place says which one of them has moved."""
    one = torch.zeros(1)
    h = [one, one]

    @tracehost.function
    def f(x):
        h.pop(0)
        h.append(x * 1)
        return x

    f(torch.ones(1))
    five, six = torch.full((1,), 5.0), torch.full((1,), 6.0)
    h[:] = [five, six]
    f(torch.ones(1))
    assert h[0] is six and h[1].item() == 1
    small = [1, 1]

    @tracehost.function
    def g(x):
        small.pop(0)
        small.append(7)
        return x

    for values in ([1, 1], [1, 2], [3, 4], [2, 2]):
        small[:] = values
        g(torch.ones(1))
        assert small == [values[1], 7]


def test_an_element_that_is_read_after_others_moved_is_guarded():
    h = [2.0, 3.0, 5.0]

    @tracehost.function
    def f(x):
        h.pop(0)
        return x * h[0]

    for values in ([2.0, 3.0, 5.0], [2.0, 7.0, 5.0], [2.0, 7.0, 9.0]):
        h[:] = values
        assert f(torch.ones(1)).item() == values[1]
        assert h == values[1:]


def test_a_deque_of_another_maxlen_is_another_signature():
    class Box:
        h = None

    box = Box()

    @tracehost.function
    def f(x):
        box.h.append(x * 1)
        return x

    box.h = collections.deque(tensors(3), maxlen=3)
    f(torch.ones(2))
    box.h = collections.deque(tensors(3), maxlen=5)
    f(torch.ones(2))
    assert len(box.h) == 4


def test_a_list_that_is_read_and_grows_says_so():
    h = []

    @tracehost.function
    def f(x):
        h.append(x * 1)
        return torch.stack(h).sum()

    f(torch.ones(1))
    f(torch.ones(1))
    made = [e for e in tracehost.events(f) if e.kind == "trace"][1]
    line = f.python_function.__code__.co_firstlineno + 2
    assert made.notes == (f"the body reads h, which grows at test_stores_rewritten.py:{line}",)
