"""Programs that a user would write around values that Python reads, each run beside eager: what the programs share."""

import dataclasses

import torch

PROGRAMS = {}


def program(make):
    """`make()` gives a body, or a body and a dict: `args(i)` of call i, `state()` of what the body keeps."""
    PROGRAMS[make.__name__] = make
    return make


def default_args(i):
    return (torch.randn(4) + (i % 3 - 1),)


def made(name):
    torch.manual_seed(0)
    found = PROGRAMS[name]()
    body, more = found if isinstance(found, tuple) else (found, {})
    return body, more.get("args", default_args), more.get("state", lambda: None)


def told(value):
    """As what compares by type, value and structure."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, tuple(value.shape), repr(value.detach().tolist())
    if dataclasses.is_dataclass(value):
        return type(value).__name__, told(vars(value))
    if isinstance(value, dict):
        return type(value).__name__, [(told(k), told(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [told(v) for v in value]
    return type(value).__name__, repr(value)


def outcome(f, args):
    try:
        return told(f(*args))
    except Exception as error:  # noqa: BLE001 (compared by kind and text)
        return type(error).__name__, str(error).split("\n")[0]
