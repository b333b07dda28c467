"""Functions that use sizes, one way each: reductions, padding, torch.nn, modules."""

import torch
import torch.nn.functional as F
from sized_registry import sized

torch.manual_seed(0)
LINEAR = torch.nn.Linear(4, 3)
CONV = torch.nn.Conv1d(3, 2, 3, padding=1)
CONV2 = torch.nn.Conv2d(1, 2, 3, stride=2, padding=1)
TRANSPOSED = torch.nn.ConvTranspose1d(3, 2, 3, stride=2)
NORM = torch.nn.LayerNorm(4)
BATCH = torch.nn.BatchNorm1d(4).eval()
GROUP = torch.nn.GroupNorm(2, 4)
LSTM = torch.nn.LSTM(4, 3)
GRU = torch.nn.GRU(4, 3, batch_first=True)
ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True)
EMBEDDING = torch.nn.Embedding(20, 3)
ENCODER = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
SEQUENTIAL = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
POSITIONS = torch.linspace(0, 1, 64 * 4).reshape(64, 4)


@sized()
def mean_by_hand(x):
    return x.sum(0) / x.size(0)


@sized()
def variance_by_hand(x):
    return ((x - x.mean(0)) ** 2).sum(0) / (x.shape[0] + 1)


@sized()
def mean_of_rows(x):
    return x.mean(0)


@sized()
def std_of_all(x):
    return x.std()


@sized()
def softmax_rows(x):
    return x.softmax(0)


@sized()
def cumulative(x):
    return x.cumsum(0)


@sized()
def top_three(x):
    return x.topk(3, 0)[0]


@sized()
def top_half(x):
    return x.topk(x.shape[0] // 2, 0)[0]


@sized()
def kth(x):
    return x.kthvalue(x.shape[0] // 2 + 1, 0)[0]


@sized()
def sorted_rows(x):
    return x.sort(0)[0][x.shape[0] // 2]


@sized()
def median_rows(x):
    return x.median(0)[0]


@sized()
def pad_fixed(x):
    return F.pad(x, (1, 1))


@sized()
def pad_rows(x):
    return F.pad(x, (0, 0, 1, 2))


@sized()
def pad_to_twelve(x):
    return F.pad(x, (0, 0, 0, 12 - x.shape[0]))


@sized()
def pad_to_multiple(x):
    return F.pad(x, (0, 0, 0, -x.shape[0] % 4))


@sized("1 3 n")
def pad_reflect(x):
    return F.pad(x, (1, 1), mode="reflect")


@sized()
def unfold_windows(x):
    return x.unfold(0, 3, 1)


@sized()
def unfold_step(x):
    return x.unfold(0, 2, 2)


@sized()
def windows_counted(x):
    return x * x.unfold(0, 3, 1).shape[0]


@sized("1 3 n")
def interpolate_factor(x):
    return F.interpolate(x, scale_factor=2)


@sized("1 3 n")
def interpolate_size(x):
    return F.interpolate(x, size=x.shape[-1] * 2)


@sized("1 3 n")
def interpolate_fixed(x):
    return F.interpolate(x, size=8, mode="linear")


@sized("1 1 n m")
def interpolate_bilinear(x):
    return F.interpolate(x, size=(x.shape[2] + 1, x.shape[3] + 1), mode="bilinear")


@sized("1 1 n m")
def conv2d_strided(x):
    return CONV2(x)


@sized("1 1 n m")
def conv2d_flattened(x):
    return CONV2(x).flatten(1)


@sized("1 1 n m")
def max_pool(x):
    return F.max_pool2d(x, 2)


@sized("1 1 n m")
def average_pool_by_size(x):
    return F.avg_pool2d(x, (x.shape[2], x.shape[3]))


@sized("1 1 n m")
def adaptive_pool(x):
    return F.adaptive_avg_pool2d(x, 2)


@sized("1 1 n m")
def adaptive_max_pool(x):
    return F.adaptive_max_pool2d(x, (1, 1))


@sized("1 1 n m")
def pixel_halves(x):
    return F.pixel_unshuffle(F.pad(x, (0, x.shape[3], 0, x.shape[2])), 2)


@sized("n 3 6")
def conv_batch(x):
    return CONV(x)


@sized("1 3 n")
def conv_length(x):
    return CONV(x)


@sized("1 3 n")
def conv_transposed(x):
    return TRANSPOSED(x)


@sized("1 3 n")
def conv_transposed_to_size(x):
    return TRANSPOSED(x, output_size=[x.shape[-1] * 2 + 1])


@sized()
def linear_layer(x):
    return LINEAR(x)


@sized("n m 4")
def linear_of_two(x):
    return LINEAR(x)


@sized()
def layer_norm(x):
    return NORM(x)


@sized()
def layer_norm_over_all(x):
    return F.layer_norm(x, x.shape)


@sized()
def batch_norm(x):
    return BATCH(x)


@sized("n 4 m")
def group_norm(x):
    return GROUP(x)


@sized("n 2 4")
def lstm_layer(x):
    return LSTM(x)[0]


@sized("2 n 4")
def gru_batch_first(x):
    return GRU(x)[0]


@sized("2 n 4")
def attention_layer(x):
    return ATTENTION(x, x, x)[0]


@sized("2 n 4")
def encoder_layer(x):
    return ENCODER(x)


@sized("n m 4")
def scaled_attention(x):
    return F.scaled_dot_product_attention(x, x, x)


@sized("n m 4")
def causal_attention(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@sized("n m 4")
def attention_by_hand(x):
    scores = x @ x.transpose(1, 2) / x.shape[-1] ** 0.5
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x


@sized("n m 4")
def heads(x):
    b, t, c = x.shape
    return x.view(b, t, 2, c // 2).transpose(1, 2).reshape(b * 2, t, c // 2)


@sized("n m 4")
def positions_added(x):
    return x + POSITIONS[: x.shape[1]]


@sized()
def embedded_positions(x):
    return EMBEDDING(torch.arange(x.shape[0]))


@sized()
def sequential_layers(x):
    return SEQUENTIAL(x)


@sized()
def dropout_off(x):
    return F.dropout(x, 0.5, training=False)


@sized()
def loss_mean(x):
    return F.mse_loss(x, torch.zeros_like(x))


@sized()
def loss_of_classes(x):
    return F.cross_entropy(x, torch.arange(x.shape[0]) % 4)


@sized()
def loss_scaled(x):
    return F.l1_loss(x, x * 2, reduction="sum") / x.shape[0]


@sized()
def normalized(x):
    return F.normalize(x, dim=0)


@sized()
def cosine_matrix(x):
    return F.cosine_similarity(x[:, None], x[None], dim=-1)


@sized()
def distances(x):
    return torch.cdist(x, x)


@sized()
def einsum_rows(x):
    return torch.einsum("ij,kj->ik", x, x)


@sized("n m 4")
def einsum_batches(x):
    return torch.einsum("bij,bkj->bik", x, x)


@sized("n m 4")
def batched_product(x):
    return torch.bmm(x, x.transpose(1, 2))


@sized()
def diagonal_of_product(x):
    return torch.diagonal(x @ x.t())


@sized()
def triangle(x):
    return torch.tril(x @ x.t())


@sized()
def triangle_indices(x):
    i = torch.tril_indices(x.shape[0], x.shape[0])
    return (x @ x.t())[i[0], i[1]]


@sized()
def grid(x):
    a, b = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(3), indexing="ij")
    return a + b


@sized()
def cartesian(x):
    return torch.cartesian_prod(x[:, 0], x[:2, 1])


@sized()
def bucketed(x):
    return torch.bucketize(x, torch.arange(x.shape[0]).float())


@sized()
def fourier(x):
    return torch.fft.rfft(x, dim=0)


@sized()
def fourier_to_size(x):
    return torch.fft.irfft(torch.fft.rfft(x, dim=0), n=x.shape[0], dim=0)


@sized()
def gathered(x):
    return x.gather(0, (torch.arange(x.shape[0])[:, None] % 2).expand(-1, 4))


@sized()
def mask_of_lengths(x):
    return torch.arange(x.shape[0])[None] < torch.tensor([1, 3])[:, None]


@sized()
def where_of_positions(x):
    return torch.where(torch.arange(x.shape[0])[:, None] > 2, x, 0.0)


@sized()
def flattened(x):
    return x.flatten()


@sized("n m 4")
def flattened_two(x):
    return x.flatten(0, 1)


@sized("n m 4")
def unflattened(x):
    return x.flatten(0, 1).unflatten(0, (x.shape[0], x.shape[1]))


@sized("n 1 4")
def squeezed(x):
    return x.squeeze()


@sized()
def unsqueezed(x):
    return x.unsqueeze(1).squeeze(1)


@sized("n m 4")
def permuted(x):
    return x.permute(2, 0, 1).reshape(4, -1)


@sized()
def moved(x):
    return x.movedim(0, 1).contiguous().view(-1)


@sized("n m 4")
def channels_last(x):
    return x[None].contiguous(memory_format=torch.channels_last)


@sized()
def stack_of_shifted(x):
    return x[1:] - x[:-1]


@sized()
def differences(x):
    return x.diff(dim=0)


@sized()
def histogram(x):
    return torch.histc(x, bins=x.shape[0] + 1)


@sized()
def counted(x):
    return torch.bincount(torch.arange(x.shape[0]) % 3, minlength=3)


@sized()
def chunked_by_size(x):
    return x.view(2, -1)
