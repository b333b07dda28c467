"""Rows of transformers: architectures of AutoModel in alphabetical order, and generate()."""

import torch

from programs.program import Maker, Program, changing, inference, training
from programs.tiny import config_of, inputs_of

# The first 40 that SMALL (tiny.py) makes a model of that eager can call with its main inputs.
ARCHITECTURES = (
    "afmoe aimv2 aimv2_vision_model albert altclip apertus arcee aria aria_text audio-spectrogram-transformer "
    "audioflamingo3 aya_vision bart beam beit bert bert-generation big_bird bigbird_pegasus biogpt bit bitnet blip "
    "bloom camembert canary canine chinese_clip chinese_clip_vision_model clip clip_text_model clip_vision_model "
    "clipseg cohere cohere2 cohere2_moe cohere2_vision cohere_asr convbert cosmos3_omni"
).split()
# Those of them that give a cache, an object, unless asked not to.
CACHING = (
    "afmoe apertus arcee aria aria_text audioflamingo3 aya_vision bart beam bigbird_pegasus biogpt bitnet bloom canary "
    "cohere cohere2 cohere2_moe cohere2_vision cohere_asr cosmos3_omni"
).split()
GENERATING = "gpt2 llama apertus arcee bart biogpt bloom cohere mistral qwen2".split()
ENCODER_DECODER = ("bart",)
PADDED = "albert bart bert gpt2 llama".split()


def rows() -> dict[str, Maker]:
    found = {}
    for name in ARCHITECTURES:
        found[f"transformers/{name}/inference"] = inference(model_of(name), inputs_of)
        found[f"transformers/{name}/training"] = training(model_of(name), inputs_of, squares)
    for name in CACHING:
        model = model_of(name, use_cache=False)
        found[f"transformers/{name}/inference, use_cache=False"] = inference(model, inputs_of)
        found[f"transformers/{name}/training, use_cache=False"] = training(
            model, inputs_of, squares
        )
    for name in PADDED:
        model = model_of(name, use_cache=False)
        found[f"transformers/{name}/inference, padded"] = inference(model, padded)
        found[f"transformers/{name}/training, padded"] = training(model, padded, squares)
        found[f"transformers/{name}/changes"] = changing(model, padded, squares)
    for name in GENERATING:
        found[f"transformers/{name}/generate"] = generate(name)
        found[f"transformers/{name}/generate, use_cache=False"] = generate(name, use_cache=False)
    return found


def model_of(name: str, use_cache: bool = True):
    def make():
        from transformers import AutoModel

        model = AutoModel.from_config(config_of(name))
        if not use_cache:
            for part in model.modules():
                config = getattr(part, "config", None)
                if config is not None and hasattr(config, "use_cache"):
                    config.use_cache = False
        return model

    return make


def padded(model, index) -> dict[str, torch.Tensor]:
    """Sentences of several lengths in most calls, of one length in the others: libraries ask whether a mask is full."""
    given = inputs_of(model, index)
    lengths = torch.tensor([[8], [8 - index % 3]])
    return given | {"attention_mask": (torch.arange(8) < lengths).long()}


def squares(model, **given) -> torch.Tensor:
    """A loss for any model: the mean square of the first result that has a gradient."""
    output = model(**given)
    tensors = (t for t in output.values() if isinstance(t, torch.Tensor) and t.requires_grad)
    return next(tensors).float().square().mean()


def generate(name: str, **options) -> Maker:
    """model.generate() as it comes, with a decorated forward. Its context grows with each token."""

    def make(decorate) -> Program:
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        kind = AutoModelForSeq2SeqLM if name in ENCODER_DECODER else AutoModelForCausalLM
        model = kind.from_config(config_of(name)).eval()
        model.forward = decorate(model.forward, reduce_retracing=True)

        def run(index):
            draw = torch.Generator().manual_seed(1000 + index)
            return model.generate(torch.randint(3, 99, (2, 8), generator=draw), **options)

        return Program(run, model.state_dict)

    return make
