"""Functions that use sizes, one way each: loops, branches."""

import torch
from sized_registry import sized


@sized()
def range_sum(x):
    total = x[0] * 0
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


@sized()
def range_of_columns(x):
    total = x[:, 0] * 0
    for i in range(x.shape[1]):
        total = total + x[:, i]
    return total


@sized()
def range_halves(x):
    for i in range(x.shape[0] // 2):
        x = x + 1
    return x


@sized()
def range_with_index(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


@sized()
def list_of_rows(x):
    return torch.stack([x[i] for i in range(x.shape[0])])


@sized()
def iterate_rows(x):
    total = x[0] * 0
    for row in x:
        total = total + row
    return total


@sized()
def list_of_tensor(x):
    return torch.stack(list(x))


@sized()
def comprehension_over_rows(x):
    return torch.cat([row * 2 for row in x])


@sized()
def enumerate_rows(x):
    total = x[0] * 0
    for i, row in enumerate(x):
        total = total + row * i
    return total


@sized()
def zip_rows(x):
    total = x[0] * 0
    for a, b in zip(x, x):
        total = total + a * b
    return total


@sized("n 4", "n 4")
def zip_two(x, y):
    return torch.stack([a + b for a, b in zip(x, y)])


@sized()
def reversed_rows(x):
    return torch.stack(list(reversed(x)))


@sized()
def while_size(x):
    i = 0
    while i < x.shape[0]:
        x = x + i
        i += 2
    return x


@sized()
def while_halving(x):
    n = x.shape[0]
    while n > 1:
        x = x * 2
        n = n // 2
    return x


@sized()
def if_large(x):
    if x.shape[0] > 6:
        return x * 2
    return x * 3


@sized()
def if_always(x):
    if x.shape[0] > 0:
        return x * 2
    return x * 3


@sized()
def if_positive_else(x):
    return x * 2 if x.shape[0] >= 1 else x * 3


@sized()
def if_even(x):
    return x[::2] if x.shape[0] % 2 == 0 else x * 3


@sized()
def if_truthy(x):
    return x * 2 if x.shape[0] else x * 3


@sized()
def if_not(x):
    return x * 2 if not x.shape[0] else x * 3


@sized()
def if_five(x):
    return x + 1 if x.shape[0] == 5 else x - 1


@sized()
def if_not_five(x):
    return x + 1 if x.shape[0] != 5 else x - 1


@sized()
def if_between(x):
    return x + 1 if 4 < x.shape[0] < 6 else x - 1


@sized()
def if_and(x):
    return x + 1 if x.shape[0] > 2 and x.shape[1] == 4 else x - 1


@sized()
def if_or(x):
    return x + 1 if x.shape[0] < 6 or x.shape[1] == 3 else x - 1


@sized()
def if_numel(x):
    return x + 1 if x.numel() > 22 else x - 1


@sized()
def if_len(x):
    return x + 1 if len(x) > 6 else x - 1


@sized()
def if_columns(x):
    return x + 1 if x.shape[1] > 3 else x - 1


@sized()
def if_of_slice(x):
    return x + 1 if x[:6].shape[0] == 6 else x - 1


@sized()
def if_of_sum(x):
    return x + 1 if x.shape[0] + x.shape[1] > 10 else x - 1


@sized()
def if_of_product(x):
    return x + 1 if x.shape[0] * 2 > 12 else x - 1


@sized()
def conditional_size(x):
    return x * (x.shape[0] if x.shape[0] > 6 else 6)


@sized()
def max_with_number(x):
    return torch.zeros(max(x.shape[0], 6))


@sized()
def min_with_number(x):
    return torch.zeros(min(x.shape[0], 6))


@sized()
def max_of_two_sizes(x):
    return x * max(x.shape[0], x.shape[1])


@sized()
def compared_as_number(x):
    return x * (x.shape[0] > 6)


@sized()
def compared_as_result(x):
    return x, x.shape[0] > 6


@sized()
def asserted(x):
    assert x.shape[0] > 0
    return x * 2


@sized()
def asserted_columns(x):
    assert x.shape[1] == 4, f"{x.shape}"
    return x * 2


@sized()
def raises_at_seven(x):
    if x.shape[0] == 7:
        raise ValueError("seven")
    return x


@sized("n m")
def rows_equal_columns(x):
    return x + x.t() if x.shape[0] == x.shape[1] else x


@sized("n m")
def loop_over_second(x):
    for j in range(x.shape[1]):
        x = x + j
    return x
