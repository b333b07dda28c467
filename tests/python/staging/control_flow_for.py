"""Small programs with control flow on tensors: for, and loops whose first iteration differs."""

import torch
import tracehost
from control_flow_registry import COUNTS, ROWS, SIGNS, P, n, program

# -- for


@program(*COUNTS)
def for_range(x, k):
    for i in range(k):
        x = x * 0.5 + i
    return x


@program((P, n(9)), (P, n(3)), (P, n(1)))
def for_range_start_step(x, k):
    for i in range(1, k, 3):
        x = x + i
    return x


@program((P, n(5)), (P, n(0)))
def for_range_backwards(x, k):
    for i in range(k, 0, -2):
        x = x * 2 + i
    return x


@program(*ROWS)
def for_rows(m):
    s = m[0] * 0
    for row in m:
        s = s + row * row
    return s


@program(*ROWS)
def for_enumerate(m):
    s = m[0] * 0
    for i, row in enumerate(m):
        s = s + row * i
    return s


@program(*ROWS)
def for_enumerate_start(m):
    s = m[0] * 0
    for i, row in enumerate(m, start=2):
        s = s + row * i
    return s


@program(*[(m, m * 2) for m in ROWS])
def for_zip(a, b):
    s = a[0] * 0
    for p, q in zip(a, b):
        s = s + p * q
    return s


@program(*[(m, m * 2) for m in ROWS])
def for_enumerate_zip(a, b):
    s = a[0] * 0
    for i, (p, q) in enumerate(zip(a, b)):
        s = s + p * q + i
    return s


@program(*ROWS)
def for_unpacks_rows(m):
    s = m[0, 0] * 0
    for a, b in m:
        s = s + a * b
    return s


@program(*SIGNS)
def for_python_range_with_if(x):
    for i in range(3):
        if x.sum() > i:
            x = x - 1
        else:
            x = x + 2
    return x


@program(*SIGNS)
def for_python_range_with_break(x):
    for i in range(4):
        if x.sum() > 40:
            break
        x = x * 2 + i
    return x


@program(*SIGNS)
def for_python_range_with_continue(x):
    for i in range(4):
        if x.sum() > i * 5:
            continue
        x = x + 3
    return x


@program(*SIGNS)
def for_python_list_with_return(x):
    for scale in [1.0, 2.0, 3.0]:
        if (x * scale).sum() > 10:
            return x * scale
    return x


@program(*SIGNS)
def for_else_python(x):
    for i in range(3):
        if x.sum() > 5:
            break
        x = x + 1
    else:
        x = x * 10
    return x


@program(*COUNTS)
def for_else_tensor(x, k):
    for i in range(k):
        x = x + i
        if x.sum() > 12:
            break
    else:
        x = -x
    return x


@program(*COUNTS)
def for_break(x, k):
    for i in range(k):
        x = x + i
        if x.sum() > 8:
            break
    return x


@program(*COUNTS)
def for_continue(x, k):
    for i in range(k):
        if i == 1:
            continue
        x = x + i
    return x


@program(*COUNTS)
def for_nested(x, k):
    for i in range(k):
        for j in range(i):
            x = x + i * j
    return x


@program(*COUNTS)
def for_while_if(x, k):
    s = x * 0
    for i in range(k):
        j = 0
        while j < i:
            if x.max() > j:
                s = s + x * j
            j += 1
        s = s + 1
    return s


@program(*COUNTS)
def for_number_carried(x, k):
    total = 0
    scale = 1.0
    for i in range(k):
        total += i
        scale = scale * 0.5
    return x * scale + total


@program(*COUNTS)
def for_tuple_carried(x, k):
    state = (x, x * 2)
    for _ in range(k):
        state = (state[1], state[0] + 1)
    return state


@program(*COUNTS)
def for_dict_carried(x, k):
    state = {"a": x, "b": x * 0}
    for i in range(k):
        state = {"a": state["a"] + 1, "b": state["b"] + state["a"]}
    return state


@program(*COUNTS)
def for_indexes(x, k):
    s = x.sum() * 0
    for i in range(k):
        s = s + x[i % 3]
    return s


@program(*(call for call in COUNTS if call[1] > 0))
def for_appends(x, k):
    out = []
    for i in range(k):
        out.append(x * i)
    return torch.stack(out)


@program(*COUNTS, error="out")
def for_appends_numbers(x, k):
    out = []
    for i in range(k):
        out.append(2)
    return x * len(out)


@program(*COUNTS, error="y")
def for_variable_after(x, k):
    for i in range(k):
        y = x * i
    return y


@program(*COUNTS)
def for_variable_given_before(x, k):
    y = x
    for i in range(k):
        y = x * i
    return y


@program(*COUNTS)
def for_unused_target(x, k):
    for _ in range(k):
        x = x * 1.5
    return x


@program(*COUNTS)
def for_with_temporaries(x, k):
    for i in range(k):
        a = x * i
        b = a + 1
        x = x + b * 0.1
    return x


@program(*COUNTS)
def for_recurrent_cell(x, k):
    h = torch.zeros(3)
    w = torch.eye(3) * 0.5
    for _ in range(k):
        h = torch.tanh(x @ w + h)
    return h


@program(*ROWS)
def for_sorted_max(m):
    best = m[0].sum() - 1000
    at = 0
    for i, row in enumerate(m):
        if row.sum() > best:
            best = row.sum()
            at = i
    return best, at


# -- loops whose first iteration differs


@program(*ROWS)
def state_begins_as_none(x):
    state = None
    for row in x:
        state = row if state is None else state * 0.5 + row
    return state


@program(*ROWS)
def states_begin_as_none(x):
    state = None
    for row in x:
        h, c = (row * 0, row * 0) if state is None else state
        h = torch.tanh(h + row)
        c = c * 0.5 + h
        state = (h, c)
    return state


@program(*[(x, n(k)) for x in ROWS for k in (0.0, 4.0, 100.0)])
def state_begins_as_none_and_the_loop_breaks(x, most):
    state = None
    for row in x:
        state = row if state is None else state + row
        if state.sum() > most:
            break
    return state, row


@program(*[(x, n(k)) for x in ROWS for k in (0.0, 4.0, 100.0)])
def state_begins_as_none_and_the_loop_returns(x, most):
    state = None
    for row in x:
        state = row if state is None else state + row
        if state.sum() > most:
            return state * 2
    return state


@program(*ROWS)
def state_begins_as_none_twice(x):
    before = now = None
    for row in x:
        before, now = now, row * 2
    return now


@program(*ROWS)
def state_begins_as_none_in_a_loop_inside(x):
    total = x[0] * 0
    for i in tracehost.range(2):
        state = None
        for row in x:
            state = row if state is None else state + row * i
        total = total + state
    return total, state


class _Recurrent:
    def __init__(self):
        self.state = None

    def run(self, x):
        for row in x:
            self.state = row if self.state is None else self.state + row
        return self.state


@program(*ROWS)
def state_of_an_object_begins_as_none(x):
    recurrent = _Recurrent()
    return recurrent.run(x), recurrent.state


@program(*ROWS)
def state_begins_with_another_shape_and_dtype(x):
    a, b, c = torch.zeros(1), torch.zeros(()), torch.zeros(2, dtype=torch.int64)
    for row in x:
        a, b, c = a + row, b + row, c + row
    return a, b, c


@program(*ROWS)
def name_is_assigned_in_a_loop_alone(x):
    for i, row in enumerate(x, 3):  # noqa: B007
        y = row * i
    return y, i, row


@program(*[(x, n(k)) for x in ROWS for k in (0.0, 4.0, 100.0)])
def name_is_assigned_in_a_loop_with_an_else(x, most):
    for row in x:
        y = row * 2
        if y.sum() > most:
            break
    else:
        y = y * 100
    return y


@program(*ROWS)
def name_is_read_in_the_iteration_after(x):
    total = x[0] * 0
    for i, row in enumerate(x):
        if i > 0:
            total = total + last  # noqa: F821 (assigned in the iteration before)
        last = row * 2
    return total


@program(*[(x, n(k)) for x in ROWS for k in (0.0, 100.0)])
def name_is_assigned_in_a_loop_of_a_branch(x, most):
    y = x[0]
    if x.sum() > most:
        for row in x:
            z = row * 3
        y = z
    return y
