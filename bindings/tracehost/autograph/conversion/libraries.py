"""Library code that autograph converts as it does the user's own.

It asks for values in plain `if`s (a step count, a mask, arguments that are checked), which become part of the
graph then. Modules, classes or functions; of torch.nn.modules only what asks, as converted code takes longer to
trace. tests/python/libraries/test_converted_libraries.py has one test an entry of torch's, tests/programs/ rows for the others.
"""

CONVERTED = (
    "timm.optim",
    "torch.amp",
    "torch.distributions",
    "torch.nn.modules.adaptive",
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.loss",
    "torch.nn.modules.rnn",
    "torch.nn.utils",
    "torch.optim",
    "torchvision.transforms",
)
