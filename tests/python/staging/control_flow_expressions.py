"""Small programs with control flow on tensors: and, or, not, comparisons, conditional expressions, assert, match."""

import enum

import torch
import torch.nn.functional as F
from control_flow_registry import BIG, COUNTS, ROWS, SIGNS, N, P, n, program

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
