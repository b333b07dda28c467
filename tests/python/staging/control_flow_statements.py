"""Small programs with control flow on tensors: with, try, del, match and the rest."""

import contextlib

import torch
from control_flow_registry import COUNTS, SIGNS, program, t

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
