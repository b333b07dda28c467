// Built at configure time as Debug, see TracehostTorch.cmake.
#include <c10/util/Exception.h>

#include <string>

#ifndef NDEBUG
#error "NDEBUG must be defined wherever torch headers are seen"
#endif
#if !_GLIBCXX_USE_CXX11_ABI
#error "the C++11 ABI must be on"
#endif

int main(int argc, char **) {
  // Takes a std::string across the library border: does not link where the ABIs differ.
  if (argc > 100)
    c10::detail::torchCheckFail("main", "torch_check.cpp", 1, std::string("check"));
  return 0;
}
