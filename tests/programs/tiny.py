"""Tiny models of transformers: a configuration made small by the names of its fields, random weights, inputs."""

import inspect

import torch

# Fields of configurations that decide about size; a field that is in none of a model's configurations is left out.
SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "embed_dim": 32, "dim": 32, "hidden_dim": 32,
    "embedding_size": 32, "encoder_hidden_size": 32, "word_embed_proj_dim": 32, "patch_embed_hidden_size": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_encoder_layers": 2, "num_decoder_layers": 2, "num_block_records": 8,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "attention_head_size": 8,
    "intermediate_size": 64, "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "d_inner": 64,
    "n_inner": 64, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "vocab_size": 99, "vocab_size_per_layer_input": 99, "max_position_embeddings": 64, "n_positions": 64,
    "image_size": 32, "patch_size": 8, "projection_dim": 16, "max_source_positions": 64, "max_target_positions": 64,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8, "mamba_n_groups": 1,
    "state_size": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "num_mel_bins": 16, "max_length": 32,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
KEPT_FROM_THE_CLASS = ("layer_types", "mlp_layer_types", "rope_parameters", "model_type", "transformers_version",
                       "architectures", "dtype", "torch_dtype", "tie_word_embeddings")  # fmt: skip


def config_of(model_type: str, **changes):
    """The configuration of a model type, as small as SMALL makes it."""
    from transformers import CONFIG_MAPPING

    whole = CONFIG_MAPPING[model_type]()
    return CONFIG_MAPPING[model_type](**smaller(whole), **changes)


def smaller(config) -> dict:
    """The keywords that make a configuration of this class a small one, its inner configurations too."""
    known = {k: v for k, v in vars(config).items() if k not in KEPT_FROM_THE_CLASS}
    names = {config.attribute_map.get(k, k): v for k, v in SMALL.items() if hasattr(config, k)}
    few = {
        k: v for k, v in names.items() if k in known and isinstance(known[k], int | float | None)
    }
    inner = {k: smaller(v) for k, v in known.items() if hasattr(v, "attribute_map")}
    for key, part in inner.items():
        part["model_type"] = known[key].model_type
    return few | inner


def inputs_of(model, index: int) -> dict[str, torch.Tensor]:
    """What a user passes at the call of this number: the model's main input, and what it can't do without."""
    draw = torch.Generator().manual_seed(1000 + index)
    parameters = inspect.signature(model.forward).parameters
    config = model.config
    text = getattr(config, "text_config", None) or config
    ids = torch.randint(3, min(getattr(text, "vocab_size", 99), 99), (2, 8), generator=draw)
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", 32)
    size = size if isinstance(size, int) else 32
    channels = getattr(vision, "num_channels", 3)
    given: dict[str, torch.Tensor] = {}
    if "input_ids" in parameters:
        given["input_ids"] = ids
    if "decoder_input_ids" in parameters and "input_ids" not in given:
        given["decoder_input_ids"] = ids
    if model.main_input_name == "pixel_values" or needs_pixels(model):
        given["pixel_values"] = torch.randn(2, channels, size, size, generator=draw)
    if model.main_input_name == "input_values":
        sound = hasattr(config, "num_mel_bins") and hasattr(config, "max_length")
        shape = (2, config.max_length, config.num_mel_bins) if sound else (2, 800)
        given["input_values"] = torch.randn(shape, generator=draw)
    if model.main_input_name == "input_features":
        given["input_features"] = torch.randn(2, 32, 16, generator=draw)
    return given


def needs_pixels(model) -> bool:
    """Whether a model that takes text and pictures can't be called with text alone: both towers are compared."""
    parameters = inspect.signature(model.forward).parameters
    return {"input_ids", "pixel_values"} <= set(parameters) and hasattr(model, "logit_scale")
