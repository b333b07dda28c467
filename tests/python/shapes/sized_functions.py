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


@sized()
def torch_size(x):
    return torch.zeros(torch.Size([x.shape[0], 2]))


@sized()
def ones_of_size(x):
    return torch.ones(x.shape[0])


@sized()
def zeros_of_two(x):
    return torch.zeros(x.shape[0], x.shape[0])


@sized()
def full_of_size(x):
    return torch.full((x.shape[0],), 2.5)


@sized()
def full_value(x):
    return torch.full((3,), x.shape[0])


@sized()
def eye_of_size(x):
    return torch.eye(x.shape[0]) @ x


@sized()
def arange_of_size(x):
    return torch.arange(x.shape[0])


@sized()
def arange_start(x):
    return torch.arange(1, x.shape[0] + 1, dtype=x.dtype)


@sized()
def arange_step(x):
    return torch.arange(0, x.shape[0], 2)


@sized()
def arange_back(x):
    return torch.arange(x.shape[0] - 1, -1, -1)


@sized()
def linspace_of_size(x):
    return torch.linspace(0, 1, x.shape[0])


@sized()
def linspace_end(x):
    return torch.linspace(0, x.shape[0], 3)


@sized()
def tensor_of_size(x):
    return x * torch.tensor(x.shape[0])


@sized()
def tensor_of_shape(x):
    return torch.tensor(x.shape)


@sized()
def scalar_tensor_of_size(x):
    return torch.scalar_tensor(x.shape[0])


@sized()
def new_tensor_of_size(x):
    return x.new_tensor([x.shape[0], 1])


@sized()
def empty_like_filled(x):
    return torch.empty_like(x).fill_(x.shape[0])


@sized()
def view_inferred(x):
    return x.view(-1)


@sized()
def view_rows(x):
    return x.view(x.shape[0], 2, 2)


@sized()
def view_inferred_rows(x):
    return x.view(-1, 2)


@sized()
def view_product(x):
    return x.view(x.shape[0] * 2, -1)


@sized()
def view_columns(x):
    return x.view(x.shape[0], -1, 2)


@sized()
def reshape_like(x):
    return x.t().reshape(x.shape)


@sized()
def view_as_other(x):
    return x.reshape(-1).view_as(x)


@sized("n m 4")
def merge_two(x):
    return x.view(x.shape[0] * x.shape[1], 4)


@sized("n m 4")
def split_two(x):
    flat = x.reshape(-1, 4)
    return flat.view(x.shape[0], x.shape[1], 4)


@sized("n m")
def transposed_view(x):
    return x.t().reshape(x.shape[1] * x.shape[0])


@sized("n m")
def swapped(x):
    return x.reshape(x.shape[1], x.shape[0])


@sized("n m")
def outer_of_sizes(x):
    return x * x.shape[0] + x.shape[1]


@sized("n m")
def larger_of_two(x):
    return x * 2 if x.shape[0] > x.shape[1] else x * 3


@sized("n m")
def smaller_of_two(x):
    return x[: min(x.shape[0], x.shape[1])]


@sized()
def expand_rows(x):
    return x[0].expand(x.shape[0], 4)


@sized()
def expand_like(x):
    return torch.ones(1, 4).expand_as(x)


@sized()
def expand_new(x):
    return x.expand(2, *x.shape)


@sized()
def expand_minus_one(x):
    return x[:, None].expand(-1, 3, -1)


@sized()
def broadcast_to_shape(x):
    return torch.broadcast_to(x[0], x.shape)


@sized()
def repeat_by_size(x):
    return x[0].repeat(x.shape[0])


@sized()
def repeat_rows(x):
    return x.repeat(2, 1)


@sized()
def tile_rows(x):
    return x.tile(x.shape[0])


@sized()
def repeat_interleave_number(x):
    return x.repeat_interleave(2, 0)


@sized()
def repeat_interleave_size(x):
    return x[0].repeat_interleave(x.shape[0])


@sized("n 4", "4")
def broadcast_vector(x, y):
    return x + y


@sized("n 4", "n 1")
def broadcast_column(x, y):
    return x * y


@sized("n", "m")
def broadcast_two_sizes(x, y):
    return x[:, None] + y


@sized("n", "n")
def broadcast_same_size(x, y):
    return x + y


@sized("n 4", "1 4")
def broadcast_row(x, y):
    return x - y


@sized()
def stride_scale(x):
    return x * x.stride(0)


@sized()
def stride_of_transposed(x):
    return x * x.t().contiguous().stride(0)


@sized()
def strides_as_result(x):
    return x + 1, x.stride()


@sized()
def contiguous_branch(x):
    return x * 2 if x.is_contiguous() else x * 3


@sized()
def contiguous_of_transposed(x):
    return x * 2 if x.t().is_contiguous() else x * 3


@sized()
def storage_offset_scale(x):
    return x * (x + 0)[-1].storage_offset()


@sized()
def as_strided_rows(x):
    return x.as_strided((x.shape[0], 2), (4, 1))


@sized()
def as_strided_copy(x):
    return torch.as_strided(x, (x.shape[0] - 1,), (4,), 4)


@sized()
def element_size_scale(x):
    return x * x.element_size()
