// What an application loads privately: it knows neither torch nor Python.
#include <tracehost/embed.h>

#include <ATen/ATen.h>

#include <iostream>

extern "C" __attribute__((visibility("default"))) int run_plugin(const char *folder) try {
  tracehost::embed::start({.path = {folder}});
  const tracehost::Function scale = tracehost::embed::import("bodies.py", "scale");
  const at::Tensor x = at::ones({2, 3});
  for (int i = 0; i < 2; ++i)
    if (!at::equal(scale(x, 3).tensor(), x * 3))
      return 1;
  return scale.stats().hits == 1 ? 0 : 1;
} catch (const std::exception &e) {
  std::cerr << e.what() << std::endl;
  return 1;
}
