"""Functions that use sizes, one way each: arithmetic and shapes. `x` is [n, 4] if nothing else is said."""

import math

import torch
from sized_registry import sized


@sized()
def times_rows(x):
    return x * x.shape[0]


@sized()
def plus_rows(x):
    return x + x.size(0)


@sized()
def divided_by_rows(x):
    return x.sum(0) / x.shape[0]


@sized()
def floor_divided(x):
    return x.new_zeros(x.shape[0] // 2)


@sized()
def modulo(x):
    return x * (x.shape[0] % 3)


@sized()
def power_of_rows(x):
    return x.sum() * x.shape[0] ** 2


@sized()
def negative_rows(x):
    return x + -x.shape[0]


@sized()
def rows_times_columns(x):
    return x.new_ones(x.shape[0] * x.shape[1])


@sized()
def numel_product(x):
    return x.reshape(x.numel())


@sized()
def nelement_scale(x):
    return x / x.nelement()


@sized()
def torch_numel(x):
    return x * torch.numel(x)


@sized()
def unpacked(x):
    n, m = x.shape
    return x.reshape(m, n)


@sized()
def unpacked_size(x):
    n, m = x.size()
    return x.view(n * m)


@sized()
def starred(x):
    n, *rest = x.shape
    return x.reshape(*rest, n)


@sized()
def shape_slice(x):
    return x.new_zeros(x.shape[:1])


@sized()
def shape_last(x):
    return x.new_zeros(x.shape[-1:])


@sized()
def shape_reversed(x):
    return x.reshape(x.shape[::-1])


@sized()
def shape_sum(x):
    return x * sum(x.shape)


@sized()
def shape_product(x):
    return x.reshape(math.prod(x.shape))


@sized()
def shape_max(x):
    return x * max(x.shape)


@sized()
def shape_min(x):
    return x * min(x.shape[0], 3)


@sized()
def shape_sorted(x):
    return x * sorted(x.shape)[0]


@sized()
def shape_numel(x):
    return x * x.shape.numel()


@sized()
def shape_tuple(x):
    return x.new_zeros(tuple(x.shape))


@sized()
def shape_list(x):
    return x.new_zeros(list(x.shape))


@sized()
def shape_concatenated(x):
    return x.new_zeros(x.shape + (2,))


@sized()
def shape_as_result(x):
    return x + 1, x.shape


@sized()
def size_as_result(x):
    return x + 1, x.shape[0]


@sized()
def size_arithmetic_as_result(x):
    return x.sum(), x.shape[0] * 2 + 1


@sized()
def int_of_size(x):
    return x * int(x.shape[0])


@sized()
def float_of_size(x):
    return x * float(x.shape[0])


@sized()
def str_of_size(x):
    return x * len(str(x.shape[0]))


@sized()
def fstring_of_size(x):
    return x * len(f"{x.shape[0]}")


@sized()
def bool_of_size(x):
    return x * bool(x.shape[0])


@sized()
def round_of_size(x):
    return x * round(x.shape[0] / 2)


@sized()
def ceil_of_size(x):
    return x * math.ceil(x.shape[0] / 2)


@sized()
def floor_of_size(x):
    return x * math.floor(x.shape[0] / 2)


@sized()
def sqrt_of_size(x):
    return x / math.sqrt(x.shape[0] + 1)


@sized()
def half_power_of_size(x):
    return x * (x.shape[0] + 1) ** -0.5


@sized()
def log_of_size(x):
    return x * math.log(x.shape[0] + 1)


@sized()
def divmod_of_size(x):
    q, r = divmod(x.shape[0], 2)
    return x * q + r


@sized()
def abs_of_size(x):
    return x * abs(x.shape[0] - 6)


@sized()
def shift_of_size(x):
    return x * (x.shape[0] << 1)


@sized()
def and_of_size(x):
    return x * (x.shape[0] & 1)


@sized()
def len_of_tensor(x):
    return x * len(x)


@sized()
def len_of_shape(x):
    return x * len(x.shape)


@sized()
def rank(x):
    return x * x.dim() + x.ndim


@sized()
def index_of_list(x):
    return x * [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15][x.shape[0]]


@sized()
def dict_by_size(x):
    return x * {5: 2.0, 7: 3.0}.get(x.shape[0], 1.0)


@sized()
def set_of_sizes(x):
    return x * len({x.shape[0], 5})


@sized()
def size_in_tuple(x):
    return x * 2 if x.shape[0] in (5, 6) else x * 3


@sized()
def tuple_index(x):
    return x * x.shape.index(4)


@sized()
def shape_count(x):
    return x * x.shape.count(5)


@sized()
def shape_equal(x):
    return x * 2 if x.shape == (5, 4) else x


@sized("n 4", "n 4")
def shapes_equal(x, y):
    return x + y if x.shape == y.shape else x


@sized("n 4", "4 n")
def shapes_unequal(x, y):
    return x + y.t() if x.shape[0] == y.shape[1] else x
