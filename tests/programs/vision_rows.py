"""Rows of torchvision and timm: the smallest model of each of many families."""

import torch
from torch.nn.functional import cross_entropy

from programs.program import Decorate, Maker, Program, changing, inference, plain, trained, training

# Names of torchvision.models, with the size of the picture where 64 is none that they take.
TORCHVISION = {
    "alexnet": 64, "convnext_tiny": 64, "densenet121": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64,
    "googlenet": 64, "inception_v3": 299, "mnasnet0_5": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "regnet_x_400mf": 64, "resnet18": 64, "shufflenet_v2_x0_5": 64, "squeezenet1_0": 64, "swin_t": 64, "swin_v2_t": 64,
    "vgg11": 64, "vit_b_32": 224, "deeplabv3_mobilenet_v3_large": 64, "lraspp_mobilenet_v3_large": 64, "r3d_18": 32,
    "efficientnet_b1": 64, "efficientnet_b2": 64, "fcn_resnet50": 64, "maxvit_t": 224, "mc3_18": 32, "mnasnet0_75": 64,
    "mnasnet1_0": 64, "mobilenet_v3_large": 64, "r2plus1d_18": 32, "regnet_x_800mf": 64, "regnet_y_400mf": 64,
    "resnet34": 64, "resnet50": 64, "resnext50_32x4d": 64, "shufflenet_v2_x1_0": 64, "shufflenet_v2_x1_5": 64,
    "squeezenet1_1": 64,
}  # fmt: skip
VIDEOS = ("r3d_18", "mc3_18", "r2plus1d_18")
DETECTION = ("fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large")
TIMM = (
    "convit_tiny crossvit_9_240 edgenext_xx_small efficientvit_b0 fastvit_t8 ghostnet_050 hardcorenas_a hgnetv2_b0 "
    "lcnet_050 levit_128s mobilenetv4_conv_small mobilevit_xxs poolformer_s12 pvt_v2_b0 repvgg_a0 rexnet_100 "
    "test_byobnet test_convnext test_efficientnet test_mambaout test_nfnet test_resnet test_vit test_vit2 tinynet_e "
    "xcit_nano_12_p16_224 "
    "gmlp_ti16_224 mixer_s32_224 mobilenetv2_035 mobilenetv3_small_050 mobileone_s0 pit_ti_224 repghostnet_050 "
    "resmlp_12_224 resnet10t starnet_s1 test_convnext2 test_efficientnet_gn test_vit3 tiny_vit_5m_224"
).split()
CHANGING = "test_byobnet test_convnext test_efficientnet test_nfnet test_resnet test_vit test_vit2 test_mambaout pvt_v2_b0 fastvit_t8 convit_tiny".split()
OPTIMIZERS = "adabelief adafactor adan adopt lamb lion madgrad nadamw".split()
TRANSFORMS = {
    "ColorJitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.1},
    "RandomRotation": {"degrees": 30},
    "RandomAffine": {"degrees": 15, "translate": (0.1, 0.1)},
    "RandomHorizontalFlip": {"p": 0.5},
    "RandomErasing": {"p": 0.5},
    "RandomResizedCrop": {"size": 16},
    "GaussianBlur": {"kernel_size": 3},
    "Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3},
}
CLASSES = 10


def rows() -> dict[str, Maker]:
    found = {}
    for name, size in TORCHVISION.items():
        model = model_of_torchvision(name)
        videos = name in VIDEOS
        found[f"torchvision/{name}/inference"] = inference(model, pictures(size, videos))
        found[f"torchvision/{name}/training"] = training(
            model, pictures(size, videos, targets=True), classified
        )
    for name in DETECTION:
        found[f"torchvision/{name}/inference"] = detection(name, train=False)
        found[f"torchvision/{name}/training"] = detection(name, train=True)
    for name in TIMM:
        found[f"timm/{name}/inference"] = inference(model_of_timm(name), of_model())
        found[f"timm/{name}/training"] = training(
            model_of_timm(name), of_model(targets=True), classified
        )
    for name in CHANGING:
        found[f"timm/{name}/changes"] = changing(
            model_of_timm(name), of_model(targets=True), classified
        )
    for name in OPTIMIZERS:
        found[f"timm/{name}/optimizer"] = training(
            model_of_timm("test_vit"), of_model(targets=True), classified, optimizer_of_timm(name)
        )
    found["timm/Mixup/data"] = plain(mixup)
    for name, more in TRANSFORMS.items():
        found[f"torchvision/{name}/transform"] = plain(transform(name, more))
    return found


def optimizer_of_timm(name: str):
    def make(parameters, lr):
        from timm.optim import create_optimizer_v2

        return create_optimizer_v2(list(parameters), opt=name, lr=lr, weight_decay=0.05)

    return make


def mixup():
    """It draws from numpy's generator."""
    from timm.data import Mixup

    mix = Mixup(mixup_alpha=0.2, num_classes=CLASSES)
    return lambda image, target: mix(image, target), lambda i: (*picture(i), torch.tensor([i % 10, 1]))  # fmt: skip


def transform(name: str, more: dict):
    def make():
        from torchvision.transforms import v2

        changed = getattr(v2, name)(**more)
        return lambda image: changed(image), picture

    return make


def picture(index):
    return (torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1000 + index)),)


def model_of_torchvision(name: str):
    def make():
        from torchvision import models

        segments = name.startswith(("deeplab", "lraspp", "fcn"))
        more = {"weights_backbone": None} if segments else {}
        return models.get_model(name, weights=None, num_classes=CLASSES, **more)

    return make


def model_of_timm(name: str):
    def make():
        import timm

        return timm.create_model(name, num_classes=CLASSES)

    return make


def pictures(size: int, videos: bool = False, targets: bool = False):
    shape = (2, 3, 4, size, size) if videos else (2, 3, size, size)

    def make(model, index):
        draw = torch.Generator().manual_seed(1000 + index)
        given = {"x": torch.randn(shape, generator=draw)}
        # One network calls its input otherwise.
        if type(model).__name__ == "LRASPP":
            given = {"input": given["x"]}
        if targets:
            given["target"] = torch.randint(CLASSES, (2,), generator=draw)
        return given

    return make


def of_model(targets: bool = False):
    """Pictures of the size that a model of timm wants, of 64 points where it takes any."""

    def make(model, index):
        wanted = model.default_cfg
        size = wanted["input_size"][-1] if wanted.get("fixed_input_size") else 64
        return pictures(size, targets=targets)(model, index)

    return make


def classified(model, target, **given) -> torch.Tensor:
    output = model(**given)
    if isinstance(output, dict):  # segmentation: a score for each point
        output = output["out"].mean((2, 3))
    elif isinstance(output, tuple):  # with auxiliary classifiers
        output = output[0]
    return cross_entropy(output, target)


def detection(name: str, train: bool) -> Maker:
    """A list of pictures of two sizes: boxes are found among proposals, as many as there are."""

    def make(decorate: Decorate) -> Program:
        from torchvision import models

        model = models.get_model(name, weights=None, weights_backbone=None, num_classes=CLASSES)
        model.train(train)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        @decorate
        def step(images, targets):
            if not train:
                return model(images)
            optimizer.zero_grad()
            loss = sum(model(images, targets).values())
            loss.backward()
            optimizer.step()
            return loss.detach()

        def run(index):
            draw = torch.Generator().manual_seed(1000 + index)
            images = [torch.rand(3, size, 64, generator=draw) for size in (48, 64)]
            boxes = torch.tensor([[4.0, 4.0, 30.0, 40.0], [10.0, 8.0, 50.0, 44.0]])
            targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
            with torch.set_grad_enabled(train):
                return step(images, targets)

        return Program(run, lambda: trained(model, optimizer))

    return make
