// `loader PLUGIN FOLDER`: opens the plug-in with RTLD_LOCAL, as applications do.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  auto *run = reinterpret_cast<int (*)(const char *)>(dlsym(plugin, "run_plugin"));
  const int result = run ? run(argv[2]) : 2;
  std::puts(result == 0 ? "passed" : "failed");
  return result;
}
