"""Small programs with control flow on tensors: while, and loops whose sizes change."""

import torch
from control_flow_registry import BIG, COUNTS, N, P, n, program, t

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
