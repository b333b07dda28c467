// Precompiled for what faces Python as well. torch's header comes first: it brings torch's own
// pybind11 and its casters.
#pragma once
#include "torch_pch.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
