"""Small programs with control flow on tensors: if, and return in it."""

import contextlib

import torch
from control_flow_registry import COUNTS, SIGNS, N, P, n, program

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
