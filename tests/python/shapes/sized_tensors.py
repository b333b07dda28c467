"""Functions that use sizes, one way each: tensors made of sizes, views, expansions, strides."""

import torch
from sized_registry import sized


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
