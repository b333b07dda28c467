#include "interpreter/environment.h"
#include "interpreter/run.h"
#include <iostream>
int main(int argc, char **argv) {
  std::string error;
  auto e = tracehost::interpreter::find_environment("", error);
  return tracehost::interpreter::run_program(e->executable.string(), {argv + 1, argv + argc});
}
