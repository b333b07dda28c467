"""Rows of diffusers, peft, torchmetrics, gpytorch, torchdiffeq, torch_geometric and kornia."""

import torch
from torch.nn.functional import cross_entropy, mse_loss

from programs.program import Decorate, Maker, Program, inference, plain, trained, training
from programs.tiny import config_of


def rows() -> dict[str, Maker]:
    found = {}
    for name, (model, inputs) in DIFFUSERS.items():
        found[f"diffusers/{name}/inference"] = inference(model, inputs)
        found[f"diffusers/{name}/training"] = training(model, inputs, of_sample)
    found["peft/LoRA of GPT-2/inference"] = inference(lora, tokens)
    found["peft/LoRA of GPT-2/training"] = training(lora, tokens, next_token)
    for name in ("Accuracy", "F1Score", "ConfusionMatrix", "AUROC"):
        found[f"torchmetrics/{name}/update"] = metric(name, "update")
        found[f"torchmetrics/{name}/update and compute"] = metric(name, "forward")
    found["gpytorch/ExactGP/training"] = gaussian_process()
    for method in ("rk4", "euler", "dopri5"):
        found[f"torchdiffeq/{method}/inference"] = inference(field, times(method))
        found[f"torchdiffeq/{method}/training"] = training(field, times(method), end_of_path)
    for name in ("GCNConv", "GATConv", "SAGEConv"):
        found[f"torch_geometric/{name}/inference"] = inference(graph_network(name), graphs)
        found[f"torch_geometric/{name}/training"] = training(graph_network(name), graphs, of_nodes)
    for name, (function, more) in FILTERS.items():
        found[f"kornia/{name}/filter"] = kornia_filter(function, more)
    for name, more in AUGMENTATIONS.items():
        found[f"kornia/{name}/augmentation"] = inference(augmentation(name, more), picture)
    return found


def drawn(index: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 + index))


def unet():
    from diffusers import UNet2DModel

    return UNet2DModel(
        sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def dit():
    from diffusers import DiTTransformer2DModel

    return DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2,
        norm_num_groups=4, sample_size=8, num_embeds_ada_norm=10,
    )  # fmt: skip


def vae():
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip


def noisy(model, index):
    return {"sample": drawn(index, 2, 3, 16, 16), "timestep": torch.tensor([index, 3])}


def noisy_with_class(model, index):
    labels = torch.tensor([index % 10, 1])
    return {"hidden_states": drawn(index, 2, 4, 8, 8), "timestep": torch.tensor([index, 3]), "class_labels": labels}  # fmt: skip


DIFFUSERS = {
    "UNet": (unet, noisy),
    "DiT": (dit, noisy_with_class),
    "VAE": (vae, lambda model, index: {"sample": drawn(index, 2, 3, 16, 16), "sample_posterior": True}),
}  # fmt: skip


def of_sample(model, **given) -> torch.Tensor:
    return model(**given).sample.square().mean()


def lora():
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config_of("gpt2"))
    model.config.use_cache = False
    return get_peft_model(model, LoraConfig(r=4, lora_dropout=0.1, fan_in_fan_out=True, target_modules=["c_attn"]))  # fmt: skip


def tokens(model, index):
    draw = torch.Generator().manual_seed(1000 + index)
    return {"input_ids": torch.randint(3, 99, (2, 8), generator=draw)}


def next_token(model, input_ids) -> torch.Tensor:
    logits = model(input_ids=input_ids).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), input_ids[:, 1:].flatten())


def metric(name: str, method: str) -> Maker:
    def make(decorate: Decorate) -> Program:
        import torchmetrics

        of = torchmetrics.__dict__[name](task="multiclass", num_classes=4)

        @decorate
        def measure(scores, target):
            return getattr(of, method)(scores, target)

        def run(index):
            scores = drawn(index, 16, 4).softmax(1)
            return measure(scores, drawn(index + 50, 16, 4).argmax(1))

        return Program(run, lambda: of.metric_state)

    return make


def gaussian_process(whole: bool = True) -> Maker:
    """The whole step is decorated, or the optimizer's part of it."""

    def make(decorate: Decorate) -> Program:
        import gpytorch

        class Model(gpytorch.models.ExactGP):
            def __init__(self, x, y, likelihood):
                super().__init__(x, y, likelihood)
                self.mean_module = gpytorch.means.ConstantMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        x = torch.linspace(0, 1, 20)
        y = x.mul(6).sin() + 0.1 * drawn(0, 20)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        model = Model(x, y, likelihood).train()
        likelihood.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

        update = optimizer.step if whole else decorate(lambda: optimizer.step())

        def step():
            optimizer.zero_grad()
            loss = -marginal(model(x), y)
            loss.backward()
            update()
            return loss.detach()

        step = decorate(step) if whole else step
        return Program(lambda index: step(), lambda: trained(model, optimizer))

    return make


class Field(torch.nn.Module):
    """The right side of an ordinary differential equation; a call solves it."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        )

    def forward(self, y, t, method):
        from torchdiffeq import odeint

        return odeint(lambda _, state: self.net(state), y, t, method=method)


def field() -> Field:
    return Field()


def times(method: str):
    return lambda model, index: {"y": drawn(index, 4, 2), "t": torch.linspace(0, 1, 5), "method": method}  # fmt: skip


def end_of_path(model, **given) -> torch.Tensor:
    return model(**given)[-1].square().mean()


def graph_network(name: str):
    def make():
        import torch_geometric.nn as graph

        convolution = getattr(graph, name)
        layers = [(convolution(4, 8), "x, edge_index -> x"), torch.nn.ReLU(), (convolution(8, 3), "x, edge_index -> x")]  # fmt: skip
        return graph.Sequential("x, edge_index", layers)

    return make


def graphs(model, index):
    draw = torch.Generator().manual_seed(1000 + index)
    return {"x": drawn(index, 10, 4), "edge_index": torch.randint(10, (2, 30), generator=draw)}


def of_nodes(model, x, edge_index) -> torch.Tensor:
    return mse_loss(model(x, edge_index), x[:, :3])


FILTERS = {
    "gaussian_blur2d": ("gaussian_blur2d", {"kernel_size": (3, 3), "sigma": (1.5, 1.5)}),
    "sobel": ("sobel", {}),
    "canny": ("canny", {}),
    "median_blur": ("median_blur", {"kernel_size": (3, 3)}),
    "bilateral_blur": ("bilateral_blur", {"kernel_size": (3, 3), "sigma_color": 0.1, "sigma_space": (1.5, 1.5)}),
    "laplacian": ("laplacian", {"kernel_size": 3}),
    "unsharp_mask": ("unsharp_mask", {"kernel_size": (3, 3), "sigma": (1.5, 1.5)}),
}  # fmt: skip
AUGMENTATIONS = {
    "RandomHorizontalFlip": {"p": 0.5},
    "ColorJitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1},
    "RandomAffine": {"degrees": 15.0},
    "RandomErasing": {"p": 0.5},
    "RandomGaussianNoise": {"p": 0.5},
    "RandomResizedCrop": {"size": (16, 16)},
    "Normalize": {"mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)},
}


def kornia_filter(name: str, more: dict) -> Maker:
    def make():
        import kornia

        function = getattr(kornia.filters, name)
        return lambda image: function(image, **more), lambda index: (drawn(index, 2, 3, 32, 32).abs(),)  # fmt: skip

    return plain(make)


def augmentation(name: str, more: dict):
    def make():
        import kornia

        return getattr(kornia.augmentation, name)(**more)

    return make


def picture(model, index):
    return {"input": drawn(index, 2, 3, 32, 32).sigmoid()}
