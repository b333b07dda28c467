"""Functions that use sizes, one way each: indexing, pieces, sizes of results."""

import torch
import torch.nn.functional as F
from sized_registry import sized


@sized()
def slice_to_size(x):
    return x[: x.shape[0] - 1]


@sized()
def slice_half(x):
    return x[: x.shape[0] // 2]


@sized()
def slice_second_half(x):
    return x[x.shape[0] // 2 :]


@sized()
def slice_step(x):
    return x[:: x.shape[0] // 2 + 1]


@sized()
def slice_negative(x):
    return x[-2:]


@sized()
def slice_beyond(x):
    return x[:100]


@sized()
def slice_six(x):
    return x[:6]


@sized()
def slice_size_of_six(x):
    return x * x[:6].shape[0]


@sized()
def slice_every_second(x):
    return x[::2] * x[::2].shape[0]


@sized("n 4", "m 4")
def slice_by_other(x, y):
    return x[: y.shape[0]]


@sized("24 4", "n 4")
def slice_table(x, y):
    return x[: y.shape[0]] + y


@sized()
def index_last(x):
    return x[x.shape[0] - 1]


@sized()
def index_minus_one(x):
    return x[-1]


@sized()
def index_middle(x):
    return x[x.shape[0] // 2]


@sized()
def index_fourth(x):
    return x[3]


@sized()
def select_last(x):
    return x.select(0, x.shape[0] - 1)


@sized()
def narrow_rows(x):
    return x.narrow(0, 1, x.shape[0] - 1)


@sized()
def narrow_fixed(x):
    return x.narrow(0, 0, 3)


@sized()
def flip_rows(x):
    return x[torch.arange(x.shape[0] - 1, -1, -1)]


@sized()
def roll_by_size(x):
    return x.roll(x.shape[0] // 2, 0)


@sized()
def write_last(x):
    y = x.clone()
    y[x.shape[0] - 1] = 0
    return y


@sized()
def write_slice(x):
    y = torch.zeros(x.shape[0] + 2, 4)
    y[1 : x.shape[0] + 1] = x
    return y


@sized()
def index_by_randomless_permutation(x):
    return x[(torch.arange(x.shape[0]) * 2) % x.shape[0]]


@sized()
def index_fill_last(x):
    return x.index_fill(0, torch.tensor([x.shape[0] - 1]), 0.0)


@sized()
def scatter_rows(x):
    return torch.zeros_like(x).scatter(0, torch.zeros(1, 4, dtype=torch.long), x[:1])


@sized()
def one_hot_rows(x):
    return F.one_hot(torch.arange(3), x.shape[0] + 3)


@sized()
def unbind_rows(x):
    return sum(x.unbind())


@sized()
def unbind_columns(x):
    a, b, c, d = x.unbind(1)
    return a + b + c + d


@sized()
def unpack_rows_of_slice(x):
    a, b = x[:2]
    return a + b


@sized()
def split_by_two(x):
    return [p * 2 for p in x.split(2)]


@sized()
def split_last(x):
    return x.split(3)[-1]


@sized()
def split_sizes(x):
    a, b = x.split([1, x.shape[0] - 1])
    return a, b * 2


@sized()
def split_columns(x):
    return x.split(2, 1)


@sized()
def chunk_two(x):
    a, *rest = x.chunk(2)
    return a * 2


@sized()
def chunk_first(x):
    return x.chunk(3)[0]


@sized()
def chunk_columns(x):
    a, b = x.chunk(2, 1)
    return a + b


@sized()
def tensor_split_three(x):
    return x.tensor_split(3)


@sized()
def tensor_split_at(x):
    return x.tensor_split([2])


@sized()
def len_of_chunks(x):
    return x * len(x.chunk(3))


@sized()
def len_of_splits(x):
    return x * len(x.split(2))


@sized("n", "m")
def concatenated(x, y):
    both = torch.cat([x, y])
    return both * both.shape[0]


@sized("n 4", "m 4")
def concatenated_and_cut(x, y):
    return torch.cat([x, y])[: x.shape[0]]


@sized("n 4", "m 4")
def products_of_two(x, y):
    return (x @ y.t()).reshape(x.shape[0] * y.shape[0])


@sized()
def stacked(x):
    return torch.stack([x, x]).shape[1] * x


@sized()
def size_through_state(x):
    sizes = []
    sizes.append(x.shape[0])
    return x * sizes[0]


@sized()
def size_through_dict(x):
    sizes = {"n": x.shape[0]}
    return x * sizes["n"]


@sized()
def size_through_function(x):
    def rows(t):
        return t.shape[0]

    return x * rows(x)


@sized()
def size_through_lambda(x):
    return x * (lambda t: t.size(0))(x)


@sized()
def size_of_result(x):
    return x * (x @ x.t()).shape[1]


@sized()
def size_of_transposed(x):
    return x * x.t().size(1)


@sized()
def negative_dimension(x):
    return x * x.size(-2)


@sized()
def size_by_keyword(x):
    return x * x.size(dim=0)


@sized()
def index_by_lists(x):
    n = x.shape[0]
    return x[[n - 1]], x[[[n - 1, 0]]], x[[[n - 1], [0]]], x[[n - 1, 0], [0, 1]]
