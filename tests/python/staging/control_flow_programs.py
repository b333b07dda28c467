"""Small programs with control flow on tensors, one a construct: what each staged graph is compared on.

Inputs take every path and several trip counts, none included. Each of them is also used as the first, so
that the graph is traced from every path. `error` is a part of the message of an unsupported program.
"""

import contextlib
import enum
import functools
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import tracehost


@dataclass
class Program:
    function: object
    inputs: list
    gradients: bool = True
    error: str | None = None
    traces: int = 1  # over all inputs; more where a Python value is among the arguments, or numbers are checked
    fails_as_python: bool = False  # some input raises in plain Python: so must the graph

    @property
    def name(self):
        return self.function.__name__


PROGRAMS: list[Program] = []


def program(*inputs, **options):
    """Each input is a tuple of arguments, or the only argument."""

    def keep(function):
        calls = [i if isinstance(i, tuple) else (i,) for i in inputs]
        PROGRAMS.append(Program(function, calls, **options))
        return function

    return keep


def t(*values):
    return torch.tensor(values)


def n(value):
    return torch.tensor(value)


P, N, BIG, ZERO = t(1.0, 2.0, 3.0), t(-1.0, -2.0, -3.0), t(10.0, 20.0, 30.0), t(0.0, 0.0, 0.0)
SIGNS = (P, N, BIG, ZERO)
COUNTS = tuple((P.clone(), n(k)) for k in (3, 0, 1, 6))
ROWS = tuple(torch.arange(2.0 * k).reshape(k, 2) + 1 for k in (3, 1, 5))


# -- if


@program(*SIGNS)
def if_only(x):
    if x.sum() > 0:
        x = x * 2
    return x


@program(*SIGNS)
def if_else(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + x


@program(*SIGNS)
def if_elif_else(x):
    if x.sum() > 50:
        y = x * 3
    elif x.sum() > 0:
        y = x.exp()
    elif x.sum() == 0:
        y = x + 5
    else:
        y = -x
    return y


@program(*SIGNS)
def if_nested_three_deep(x):
    y = x
    if x.sum() >= 0:
        if x.max() > 5:
            if x.min() > 5:
                y = x.sqrt()
            else:
                y = x * 4
        else:
            y = x * 10
        y = y + 1
    return y * x


@program(*SIGNS)
def if_sequence(x):
    y, z = x, x * 2
    if x.sum() > 0:
        y = z
    if x.sum() > 50:
        z = y * y
    if y.sum() < 0:
        y, z = z, y
    return y, z


@program(*SIGNS)
def if_swaps(x):
    a, b = x + 1, x - 1
    if x.sum() > 0:
        a, b = b, a
    return a * 2, b


@program(*SIGNS)
def if_with_temporary(x):
    y = x
    if x.sum() > 0:
        temporary = x * 2
        y = temporary + 1
    return y


@program(*SIGNS, error="z")
def if_defines_in_one_branch(x):
    if x.sum() > 0:
        z = x * 2
    return z


@program(*SIGNS, error="y")
def if_dtype_differs(x):
    if x.sum() > 0:
        y = x
    else:
        y = x.long()
    return y


@program(*SIGNS, error="m")
def if_string_differs(x):
    m = "a"
    if x.sum() > 0:
        m = "b"
    return x * (2 if m == "a" else 3)


@program(*SIGNS, error="y")
def if_structure_differs(x):
    if x.sum() > 0:
        y = (x, x)
    else:
        y = (x,)
    return y


@program(*SIGNS, error="y")
def if_none_or_tensor(x):
    y = None
    if x.sum() > 0:
        y = x
    return y


@program(*SIGNS)
def if_same_string(x):
    mode = "double"
    if x.sum() > 0:
        mode = "double"
        x = x + 1
    return x * (2 if mode == "double" else 3)


@program(*SIGNS)
def if_tuple_and_dict(x):
    if x.sum() > 0:
        out = (x, {"a": x * 2, "b": [x]})
    else:
        out = (x + 1, {"a": x * 3, "b": [x * x]})
    return out


@program(*SIGNS)
def if_number_in_one_branch(x):
    y = 0
    if x.sum() > 0:
        y = x.sum()
    return x + y


@program(*SIGNS)
def if_int_counter(x):
    k = 0
    if x.sum() > 0:
        k += 2
    j = k
    if x.max() > 5:
        k = k + 1
    return k, j


@program(*SIGNS)
def if_float_factor(x):
    scale = 0.5 if x.sum() > 0 else 2.0
    return x * scale


@program(*SIGNS)
def if_bool_flag(x):
    found = False
    if x.sum() > 0:
        found = True
    if found:
        x = x * 2
    return x, found


@program(*SIGNS, error="shape")
def if_condition_of_three(x):
    if x > 0:
        return x
    return -x


@program(*[(v.reshape(3, 1),) for v in (P, N)])
def if_condition_of_one_element(x):
    if x[:1] > 0:
        return x
    return -x


@program(*[(v, flag) for v in (P, N) for flag in (n(True), n(False))])
def if_bool_tensor(x, flag):
    if flag:
        return x * 2
    return x


@program(*[(P, n(k)) for k in (0, 1, -3)])
def if_int_tensor(x, k):
    if k:
        return x * k
    return x


@program(torch.eye(3) * 2, torch.eye(3) * -1)
def if_untaken_would_fail(m):
    if m[0, 0] > 0:
        return torch.linalg.cholesky(m)
    return m


@program(*SIGNS)
def if_shape_differs(x):
    if x.sum() > 0:
        y = torch.cat([x, x])
    else:
        y = x
    return y.sum()


@program(*SIGNS)
def if_pass_and_else(x):
    if x.sum() > 0:
        pass
    else:
        x = x - 1
    return x


@program(*SIGNS)
def if_reads_outer(x):
    w = torch.ones(3)
    if x.sum() > 0:
        y = w + x
    else:
        y = w * x
    return y + w


@program(*SIGNS)
def if_python_inside_tensor(x):
    if x.sum() > 0:
        if len(x) == 3:
            y = x * 2
        else:
            y = x * 3
    else:
        y = x
    return y


@program(*[(v, flag) for v in (P, N) for flag in (True, False)], traces=2)
def if_tensor_inside_python(x, flag):
    if flag:
        if x.sum() > 0:
            x = x * 2
    else:
        x = x + 1
    return x


# -- return


@program(*SIGNS)
def return_early(x):
    if x.sum() > 50:
        return x * 3
    y = x + 1
    if y.sum() < 0:
        return y * y
    return y - 1


@program(*SIGNS)
def return_in_both(x):
    if x.sum() > 0:
        return x, x * 2
    else:
        return x + 1, x


@program(*SIGNS)
def return_nested(x):
    if x.sum() > 0:
        if x.max() > 5:
            return x * 5
        x = x + 1
    else:
        if x.min() < 0:
            return x * 7
    return x


@program(*SIGNS, error="return")
def return_on_some_paths(x):
    if x.sum() > 0:
        return x


@program(*SIGNS, error="return")
def return_none_or_tensor(x):
    if x.sum() > 0:
        return None
    return x


@program(*SIGNS)
def return_nothing(x):
    if x.sum() > 0:
        return
    x = x + 1


@program(*SIGNS)
def return_in_with(x):
    with contextlib.nullcontext():
        if x.sum() > 0:
            return x * 2
        x = x - 1
    return x


@program(*SIGNS)
def return_in_try(x):
    try:
        if x.sum() > 0:
            return x * 2
        x = x - 1
    finally:
        x = x + 1
    return x


@program(*SIGNS)
def return_many(x):
    s = x.sum()
    if s > 40:
        return x
    if s > 5:
        return x + 1
    if s == 0:
        return x + 2
    if s > -3:
        return x + 3
    return x + 4


@program(*COUNTS)
def return_from_loop(x, k):
    for i in range(k):
        x = x * 2
        if x.sum() > 20:
            return x + i
    return -x


@program(*COUNTS)
def return_from_while(x, k):
    while k > 0:
        x = x * 1.5
        if x.sum() > 15:
            return x
        k = k - 1
    return x - 1


@program(*COUNTS)
def return_from_nested_loops(x, k):
    for i in range(k):
        for j in range(k):
            x = x + 1
            if x.sum() > 18:
                return x * 2, j
    return x, -1


# -- while


@program(*COUNTS)
def while_counts(x, k):
    i = 0
    while i < k:
        x = x * 1.1
        i += 1
    return x, i


@program(P, BIG, t(500.0, 0.0, 0.0))
def while_until_large(x):
    while x.sum() < 100:
        x = x * 2
    return x


@program(P, BIG, t(500.0, 0.0, 0.0))
def while_with_and(x):
    i = 0
    while x.sum() < 100 and i < 3:
        x = x * 2
        i = i + 1
    return x, i


@program(*COUNTS)
def while_break(x, k):
    i = 0
    while i < k:
        x = x * 2
        if x.sum() > 20:
            break
        i += 1
    return x, i


@program(*COUNTS)
def while_continue(x, k):
    i = 0
    s = x * 0
    while i < k:
        i += 1
        if i % 2 == 0:
            continue
        s = s + x * i
    return s


@program(*COUNTS)
def while_true_break(x, k):
    while True:
        if k <= 0:
            break
        x = x + k
        k = k - 1
    return x


@program((P, t(1.0)), (P, t(50.0)), (P, t(0.01)), (N, t(-1.0)))
def while_true_return(x, scale):
    x = x * scale
    steps = 0
    while True:
        x = x * 2
        steps += 1
        if x.sum() > 100:
            return x, steps
        if x.sum() < -100:
            return -x, steps


@program((P, n(0)), (P, n(1)), (P * 50, n(2)))
def while_true_return_in_branch(x, k):
    if k > 0:
        while True:
            x = x * 2
            if x.sum() > 100:
                return x
    return x - 1


@program(P, N, BIG)
def while_over_items(x):
    state = {"x": x, "n": 0}
    while state["x"].sum() > 1:
        state["x"] = state["x"] / 2
        state["n"] += 1
    return state


@program(*COUNTS)
def for_over_attributes(x, k):
    class State:
        pass

    state = State()
    state.x, state.n = x, 0
    for _ in range(k):
        state.x = state.x / 2
        state.n += 1
    return state.x, state.n


@program(*COUNTS)
def for_augments_items(x, k):
    y = torch.zeros(7, 7)
    for i in range(k):
        y[i] += 1
        y[0, i] += i
        y[i, i] *= 2
    return y + x.sum()


@program(*COUNTS)
def while_else(x, k):
    while k > 0:
        x = x * 2
        if x.sum() > 30:
            break
        k = k - 1
    else:
        x = -x
    return x


@program(*COUNTS)
def while_two_carried(x, k):
    a, b = x, x * 0 + 1
    while k > 0:
        a, b = b, a + b
        k = k - 1
    return a, b


@program(*COUNTS)
def while_if_inside(x, k):
    while k > 0:
        if k % 2 == 0:
            x = x * 2
        else:
            x = x - 1
        k = k - 1
    return x


@program(*COUNTS)
def while_nested(x, k):
    i = 0
    while i < k:
        j = 0
        while j < i:
            x = x + 0.5
            j += 1
        i += 1
    return x


@program(*COUNTS)
def while_invariant_tensor(x, k):
    w = x * 3
    while k > 0:
        x = x + w
        k = k - 1
    return x


@program(*COUNTS)
def while_walrus(x, k):
    while (left := k) > 0:
        x = x + left
        k = k - 1
    return x


@program(t(2.0), t(9.0), t(1.0))
def while_newton(a):
    x = a
    while (x * x - a).abs() > 1e-4:
        x = 0.5 * (x + a / x)
    return x


@program(P, BIG)
def while_number_becomes_tensor(x):
    total = 0.0
    while total < 10:
        total = total + x.sum()
    return total


@program(*COUNTS, error="x")
def while_dtype_changes(x, k):
    while k > 0:
        x = x.double()
        k = k - 1
    return x


@program(*COUNTS, error="x")
def while_rank_changes(x, k):
    while k > 0:
        x = x.unsqueeze(0)
        k = k - 1
    return x


@program(*COUNTS, error="y")
def while_defines_inside(x, k):
    while k > 0:
        y = x * k
        k = k - 1
    return y


@program(P, N, gradients=False)
def while_never_runs(x):
    k = x.sum() * 0
    while k > 0:
        x = x * 2
        k = k - 1
    return x


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


# -- and, or, not, comparisons, conditional expressions


@program(*SIGNS)
def bool_and(x):
    s = x.sum()
    if s > 0 and s < 50:
        return x * 2
    return x


@program(*SIGNS)
def bool_or(x):
    s = x.sum()
    if s < 0 or s > 50:
        return x * 2
    return x


@program(*SIGNS)
def bool_not(x):
    if not x.sum() > 0:
        return x * 2
    return x


@program(*SIGNS)
def bool_mixed(x):
    s = x.sum()
    if not (s > 0) or (s > 5 and not s > 50) or x[0] == 1:
        return x * 2
    return x * 3


@program((P, n(0)), (P, n(1)), (P, n(3)))
def bool_and_guards_index(x, k):
    if k > 0 and x[k - 1] > 1:
        return x * 2
    return x


@program(*[(v, flag) for v in (P, N) for flag in (True, False)], traces=2)
def bool_python_first(x, flag):
    if flag and x.sum() > 0:
        return x * 2
    return x


@program(*[(v, flag) for v in (P, N) for flag in (True, False)], traces=2)
def bool_tensor_first(x, flag):
    if x.sum() > 0 and flag:
        return x * 2
    return x


@program(*SIGNS)
def bool_value_used(x):
    positive = x.sum() > 0 and x.max() < 5
    return x, positive


@program(*SIGNS)
def bool_is_none(x, y=None):
    if y is None and x.sum() > 0:
        return x
    return -x


@program(*SIGNS)
def compare_chain(x):
    if 0 < x.sum() < 50:
        return x + 1
    return x - 1


@program(*SIGNS)
def compare_chain_of_four(x):
    if -10 < x[0] <= x[1] < x[2] != 0:
        return x * 2
    return x


CALLS = [0]


def counted(x):
    CALLS[0] += 1
    return x.sum()


@program(*SIGNS)
def compare_chain_middle_once(x):
    CALLS[0] = 0
    if -100 < counted(x) < 40:
        x = x * 2
    return x, CALLS[0]


@program((P, P.clone()), (P, N))
def compare_equal(x, y):
    if (x == y).all():
        return x * 2
    return x + y


@program((P, n(1)), (P, n(2)))
def compare_with_number(x, k):
    if k == 1:
        x = x + 1
    if k != 1:
        x = x - 1
    return x


@program(*SIGNS)
def ternary(x):
    y = x * 2 if x.sum() > 0 else x - 1
    return y + 1


@program(*SIGNS)
def ternary_nested(x):
    return x * 2 if x.sum() > 50 else x * 3 if x.sum() > 0 else x * 4


@program(*SIGNS)
def ternary_in_arguments(x):
    return torch.clamp(x, min=0.0 if x.sum() > 0 else -2.0) if x.max() > 0 else F.relu(-x)


@program(*SIGNS)
def ternary_numbers(x):
    k = 1 if x.sum() > 0 else 3
    return x * k


@program(*SIGNS)
def min_max_builtin(x):
    a = max(x[0], x[1])
    b = min(x[0], 0.5)
    return a * b


@program(*SIGNS)
def min_max_of_list(x):
    return max([x[0], x[1], x[2]]) - min([x[0], x[1]])


@program(*ROWS)
def len_of_tensor(m):
    return m.sum() / len(m)


# -- assert


@program(P, BIG)
def assert_holds(x):
    assert x.sum() > 0, "sum must be positive"
    return x * 2


@program(P, N, BIG, fails_as_python=True)
def assert_fails(x):
    assert x.sum() > 0, "sum must be positive"
    return x * 2


@program(P, N, BIG, fails_as_python=True)
def assert_in_branch(x):
    if x.max() < 20:
        assert x.min() > 0
        x = x + 1
    return x


# -- functions


def helper(v, limit=0.0):
    if v.sum() > limit:
        return v * 2
    return v + 1


@program(*SIGNS)
def call_helper(x):
    return helper(x) + helper(x, limit=10.0)


@program(*SIGNS)
def call_helper_in_branch(x):
    if x.max() > 1:
        return helper(x)
    return helper(-x) * 3


@program(*COUNTS)
def call_helper_in_loop(x, k):
    for _ in range(k):
        x = helper(x, 12.0)
    return x


@program(*SIGNS)
def nested_function(x):
    def inner(v):
        if v.sum() > 0:
            return v * 2
        return v

    return inner(x) + inner(-x)


@program(*SIGNS)
def nested_function_reads_state(x):
    if x.sum() > 0:
        scale = x.max()
    else:
        scale = x.min()

    def inner(v):
        return v * scale

    return inner(x)


@program(*SIGNS)
def nonlocal_state(x):
    s = x

    def update():
        nonlocal s
        if x.sum() > 0:
            s = s * 2
        else:
            s = s - 1

    update()
    update()
    return s


@program(*SIGNS)
def nonlocal_through_a_call(x):
    s = x

    def update():
        nonlocal s
        s = s * 2

    if x.sum() > 0:
        update()
    return s


GLOBAL = None


@program(*SIGNS)
def global_state(x):
    global GLOBAL
    GLOBAL = x
    if x.sum() > 0:
        GLOBAL = x * 2
    result, GLOBAL = GLOBAL, None
    return result


@program(*SIGNS)
def lambda_with_ternary(x):
    f = lambda v: v * 2 if v.sum() > 0 else v - 1
    return f(x) + f(-x)


@program(*SIGNS)
def two_lambdas_on_one_line(x):
    f, g = lambda v: v * 2 if v.sum() > 0 else v, lambda v: v if v.sum() > 0 else v * 3
    return f(x) - g(x)


@program(*SIGNS)
def map_and_sum(x):
    return sum(map(lambda v: v + 1 if v.sum() > 0 else v, [x, -x]))


@program(*SIGNS)
def default_arguments(x):
    def inner(v, factor=3.0, *rest, bias=1.0, **more):
        if v.sum() > 0:
            return v * factor
        return v + bias

    return inner(x) + inner(x, 2.0, x, bias=5.0, other=x)


@program(*SIGNS)
def partial_of_helper(x):
    return functools.partial(helper, limit=10.0)(x)


def recursive(v, depth):
    if depth == 0:
        return v
    if v.sum() > 0:
        v = v - 1
    return recursive(v, depth - 1)


@program(*SIGNS)
def recursion_python_depth(x):
    return recursive(x, 3)


def ping(v, depth):
    return v if depth == 0 else pong(v * 2 if v.sum() > 0 else v, depth - 1)


def pong(v, depth):
    return v if depth == 0 else ping(v + 1 if v.sum() > 10 else v, depth - 1)


@program(*SIGNS)
def mutual_recursion(x):
    return ping(x, 4)


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated_helper(v):
    if v.sum() > 0:
        return v
    return v * 5


@program(*SIGNS)
def decorated_function(x):
    return decorated_helper(x)


@program(*SIGNS)
def star_arguments(x):
    def total(*values, **named):
        s = values[0]
        for v in values[1:]:
            if v.sum() > 0:
                s = s + v
        return s * named["scale"]

    return total(x, *[x, -x], **{"scale": 2.0})


def positive_sum(*values):
    return sum(v if v.sum() > 0 else v * 0 for v in values)


@program(*SIGNS)
def generator_expression_in_helper(x):
    return positive_sum(x, -x, x * 2)


# -- objects


class Counter:
    def __init__(self):
        self.value = None
        self.steps = 0

    def step(self, v):
        if v.sum() > 0:
            self.value = v * 2
            self.steps = self.steps + 1
        else:
            self.value = v
        return self.value + self.steps

    def __call__(self, v):
        return v * 3 if v.sum() > 0 else v


class Bounded(Counter):
    def step(self, v):
        y = super().step(v)
        if y.max() > 3:
            y = y + 1
        return y


class Private:
    def __init__(self):
        self.__factor = 2.0

    def apply(self, v):
        if v.sum() > 0:
            return v * self.__factor
        self.__factor = self.__factor + v.sum()
        return v * self.__factor


@program(*SIGNS)
def method_with_state(x):
    counter = Counter()
    return counter.step(x) + counter.step(-x)


@program(*SIGNS)
def method_of_subclass(x):
    return Bounded().step(x)


@program(*SIGNS)
def callable_object(x):
    return Counter()(x)


@program(*SIGNS)
def private_attribute(x):
    return Private().apply(x)


@program(*SIGNS)
def attribute_in_branches(x):
    counter = Counter()
    counter.value = x
    if x.sum() > 0:
        counter.value = x * 3
    return counter.value


@program(*SIGNS)
def attribute_made_in_both(x):
    counter = Counter()
    if x.sum() > 0:
        counter.new = x * 2
    else:
        counter.new = x
    return counter.new


@program(*COUNTS)
def attribute_in_loop(x, k):
    counter = Counter()
    counter.value = x
    for i in range(k):
        counter.value = counter.value + i
    return counter.value


@program(*SIGNS)
def item_in_branches(x):
    d = {"a": x, "b": x}
    if x.sum() > 0:
        d["a"] = x * 2
    else:
        d["b"] = x * 5
    return d["a"], d["b"]


@program(*SIGNS)
def item_made_in_both(x):
    d = {}
    if x.sum() > 0:
        d["k"] = x
    else:
        d["k"] = x + 1
    return d["k"]


@program(*SIGNS)
def list_item_in_branch(x):
    items = [x, x * 2]
    if x.sum() > 0:
        items[0] = items[1] + 1
    return items


@program(*SIGNS, traces=2)
def list_appended_in_branch(x):
    out = [x]
    if x.sum() > 0:
        out.append(x * 2)
    return sum(out)


@program(*SIGNS)
def list_appended_in_python_loop(x):
    out = []
    for i in range(3):
        y = x * i
        if y.sum() > 0:
            y = y + 1
        out.append(y)
    return torch.stack(out)


@program(*SIGNS)
def comprehension_with_ternary(x):
    ys = [x * i if x.sum() > i else x - i for i in range(3)]
    return torch.stack(ys)


# -- modules


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, v):
        if v.mean() > 0:
            return self.first(v)
        return self.second(v) * 2


torch.manual_seed(0)
GATE = Gate()
STACK = nn.Sequential(Gate(), nn.Tanh(), Gate())


@program(*SIGNS)
def module_forward(x):
    return GATE(x)


@program(*SIGNS)
def modules_in_sequential(x):
    return STACK(x)


@program(*COUNTS)
def module_in_loop(x, k):
    for _ in range(k):
        x = torch.tanh(GATE(x))
    return x


@program(*SIGNS)
def module_early_exit(x):
    for layer in STACK:
        x = layer(x)
        if x.abs().max() > 2:
            return x
    return x * 2


WEIGHT = nn.Parameter(torch.ones(3) * 2)


@program(*SIGNS)
def closure_over_parameter(x):
    def inner(v):
        return v * WEIGHT if v.sum() > 0 else v - WEIGHT

    return inner(x) + inner(-x)


# -- mutation of tensors


@program(*SIGNS, gradients=False)
def inplace_in_branch(x):
    y = x.clone()
    if x.sum() > 0:
        y += 1
    else:
        y *= 2
    return y


@program(*SIGNS, gradients=False)
def inplace_on_input(x):
    if x.sum() > 0:
        x.mul_(2)
    else:
        x.sub_(1)
    return x + 1


@program(*SIGNS, gradients=False)
def item_of_tensor_in_branch(x):
    y = x.clone()
    if x.sum() > 0:
        y[0] = 7.0
    return y


@program(*COUNTS, gradients=False)
def item_of_tensor_in_loop(x, k):
    y = torch.zeros(8)
    for i in range(k):
        y[i] = x[0] * i
    return y


@program(*COUNTS, gradients=False)
def inplace_in_loop(x, k):
    for i in range(k):
        x += i
    return x


@program(*COUNTS)
def augmented_number_twice(x, k):
    i = 0
    while i < k:
        x = x + i
        i += 1
        i *= 1
    return x, i


# -- loops whose sizes change


@program(*COUNTS)
def size_grows_in_a_for(x, k):
    for _ in range(k):
        x = torch.cat([x, x[-1:] * 0.5])
    return x


@program(*COUNTS)
def size_grows_in_a_while(x, k):
    i = 0
    while i < k:
        x = torch.cat([x, x.sum().reshape(1) * 0.1])
        i += 1
    return x, i


@program((n(0),), (n(3),), (n(1),), (n(6),), gradients=False)
def tokens_are_decoded(k):
    tokens = torch.zeros((2, 1), dtype=torch.int64)
    for i in range(k):
        following = tokens[:, -1] * 2 + i
        tokens = torch.cat([tokens, following[:, None]], 1)
    return tokens


@program(*COUNTS)
def sizes_grow_in_a_cache(x, k):
    cache = {"k": x[None], "v": x[None] * 2}
    for i in range(k):
        row = (cache["k"] * cache["v"]).mean(0) * 0.1
        cache = {"k": torch.cat([cache["k"], row[None]]), "v": torch.cat([cache["v"], x[None] + i])}
    return cache


@program(*COUNTS)
def size_grows_in_two_loops(x, k):
    for _ in range(k):
        for _ in range(k):
            x = torch.cat([x, x[-1:] * 0.5])
    return x


@program(*COUNTS)
def size_that_grows_is_read(x, k):
    total = x.sum() * 0
    for _ in range(k):
        total = total + x.shape[0]
        x = torch.cat([x, x[:1]])
    return total, x.shape[0], len(x)


@program(*COUNTS)
def size_grows_in_the_other_branch_and_is_read(x, k):
    total = x.sum() * 0
    for _ in range(k):
        total = total + x.shape[0]
        if total < 0:
            x = x + 1
        else:
            x = torch.cat([x, x[:1]])
    return total


@program(*COUNTS)
def size_grows_along_a_chain(x, k):
    a, b, c = x, x, x
    for _ in range(k):
        a, b, c = b, c, torch.cat([c, a[:1]])
    return a, b, c


@program(*COUNTS)
def size_shrinks(x, k):
    x = torch.cat([x, x])
    for _ in range(k):
        x = x[1:]
    return x.sum(), x


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


# -- match on what is traced


class _Kind(enum.IntEnum):
    NONE = 0
    SOME = 3


@program(*COUNTS)
def match_of_a_tensor(x, k):
    match k:
        case 0:
            y = x
        case 1 | 3:
            y = x * 2
        case _:
            y = -x
    return y


@program(*COUNTS)
def match_of_a_number(x, k):
    match k.item():
        case _Kind.NONE:
            return x
        case _Kind.SOME | 4 as found:
            return x * found
        case found if found > 4:
            return x - found
        case _:
            return -x


@program(*COUNTS)
def match_with_guards(x, k):
    match k:
        case 0 | 1 as small if x.sum() > 3:
            y = x + small
        case _ if k > 5:
            y = x - k
        case other if other == 3 and x.sum() > 0:
            y = x * other
        case _:
            y = x
    return y


@program(*SIGNS)
def match_of_bools(x):
    match (x.sum() > 0).item():
        case True:
            return x * 2
        case False:
            return x - 1
        case None:
            return x
    return -x


@program(*COUNTS)
def match_in_a_loop(x, k):
    odd = 0
    for i in range(k):
        match i % 3:
            case 0:
                continue
            case 1:
                odd += 1
            case _:
                x = x + i
        if odd > 1:
            break
    return x, odd


@program(*COUNTS)
def match_without_a_case_that_fits(x, k):
    match k:
        case 1:
            x = x * 2
        case 3:
            x = x * 3
    return x


@program(*COUNTS)
def match_of_a_structure_with_a_guard(x, k):
    match (x, k):
        case [a]:
            return a
        case [a, b] if b > 2:
            return a * b
        case {"x": a}:
            return a
        case (a, torch.Tensor() as b):
            return a - b


@program(*COUNTS)
def match_inside_of_a_match(x, k):
    match k:
        case 0:
            return x
        case _:
            match (x.sum() + k) > 100:
                case True:
                    return x * 2
    return x * 3


def _by_kind(x, kind):
    match kind:
        case 0:
            return x
        case 1:
            return x * 2
        case 3:
            return _by_kind(x, kind - 3) * 5
        case _:
            return x * 7


@program((P, 0), (P, 3), (P, 1), (P, 2), (P, "a"), traces=5)
def match_of_a_python_value(x, kind):
    return _by_kind(x, kind)


# -- with, try, del, match and the rest


@program(*SIGNS, gradients=False)
def no_grad_around_if(x):
    with torch.no_grad():
        if x.sum() > 0:
            k = x * 2
        else:
            k = x * 3
    return k


@program(*SIGNS)
def no_grad_inside_branch(x):
    if x.sum() > 0:
        with torch.no_grad():
            k = x * 2
    else:
        k = x * 3
    return x * k


@program(*SIGNS)
def try_around_if(x):
    y = x
    try:
        if x.sum() > 0:
            y = x * 2
        {}["missing"]
    except KeyError as e:
        y = y + len(e.args)
    finally:
        y = y * 2
    return y


@program(*SIGNS)
def try_inside_branch(x):
    if x.sum() > 0:
        try:
            y = x * int("no number")
        except ValueError as e:
            y = x * 2
    else:
        y = x
    return y


@program(*SIGNS)
def with_in_loop_and_continue(x):
    for i in range(2):
        with contextlib.suppress(ZeroDivisionError):
            if x.sum() > 2:
                x = x - 1
            elif i == 1:
                continue
            x = x + 0.5
    return x


@program(*SIGNS)
def delete_and_unpack(x):
    a, *rest = [x, x * 2, x * 3]
    if a.sum() > 0:
        b = a + rest[-1]
        del rest
    else:
        b = rest[0]
    del a
    return b


@program(*SIGNS)
def match_python_subject(x):
    match ("scale", 2):
        case ("scale", k):
            if x.sum() > 0:
                y = x * k
            else:
                y = x
        case _:
            y = -x
    return y


@program(*SIGNS)
def walrus_in_condition(x):
    if (s := x.sum()) > 0:
        y = x * s
    else:
        y = x - s
    return y, s


@program(*SIGNS)
def f_string_as_key(x):
    if x.sum() > 0:
        y = x
    else:
        y = x * 2
    return {f"v{1 + 1}": y}


@program(*SIGNS)
def annotated_variables(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = x
    if x.sum() > 0:
        y: torch.Tensor = x * 2
    return y


@program(*SIGNS, traces=2)
def generator_with_tensor_condition(x):
    def values():
        if x.sum() > 0:
            yield x
        yield x * 2

    return sum(values())


@program(*SIGNS)
def generator_without_tensor_condition(x):
    def values():
        for i in range(3):
            yield x * i

    s = x
    for v in values():
        if v.sum() > 0:
            s = s + v
    return s


@program(*SIGNS, traces=3)
def comprehension_filter_on_tensor(x):
    return sum([v for v in (x, -x) if v.sum() > 0])


@program(*SIGNS)
def random_is_drawn_once(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x
    return y + torch.zeros(3).uniform_(1, 1)


@program(*SIGNS)
def clip_by_norm(x):
    norm = x.norm() + 1e-6
    if norm > 5:
        x = x * (5 / norm)
    return x


@program(*COUNTS)
def power_by_squaring(x, k):
    result = torch.ones(3)
    base = x
    while k > 0:
        if k % 2 == 1:
            result = result * base
        base = base * base
        k = k // 2
    return result


@program((t(0.0), t(2.0)), (t(1.0), t(1.5)), (t(1.0), t(8.0)), gradients=False)
def bisection(low, high):
    while high - low > 1e-3:
        middle = (low + high) / 2
        if middle * middle > 2:
            high = middle
        else:
            low = middle
    return low
