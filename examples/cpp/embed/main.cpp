// A C++ program calls PyTorch functions of a Python file from several threads, with lists of many
// lengths.
//
//     embed [FOLDER]      FOLDER has scores.py
//
// `naive` has one trace for each length, and the report says why and what to write; `score` says in
// its declaration that the length may be any, and has one.
#include <tracehost/embed.h>

#include <ATen/ATen.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4, kLengths = 8;

/// Calls it with each length; the sum of the scores of the longest list.
double call(const tracehost::Function &function) {
  at::Tensor scores;
  for (int length = 1; length <= kLengths; ++length) {
    scores = function(at::arange(length, at::kLong));
    if (scores.size(0) != length)
      std::abort();
  }
  return scores.sum().item<double>();
}

double call_from_threads(const tracehost::Function &function) {
  std::atomic<double> longest{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] { longest = call(function); });
  for (std::thread &thread : threads)
    thread.join();
  return longest;
}

void check(bool so, const char *what) {
  if (so)
    return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

} // namespace

int main(int argc, char **argv) try {
  tracehost::embed::start({.path = {argc > 1 ? argv[1] : "."}});
  const tracehost::Function naive = tracehost::embed::import("scores.py", "naive");
  const tracehost::Function score = tracehost::embed::import("scores.py", "score");

  // The first calls trace: after five in a row there is a warning on stderr, with cause and cure.
  check(call(naive) == call(score), "the same numbers");
  const double a = call_from_threads(naive), b = call_from_threads(score);
  std::cout << tracehost::embed::report() << "\n";
  std::cout << "naive: " << naive.stats().traces << " traces for " << kLengths
            << " lengths; score: " << score.stats().traces << " trace, " << score.stats().hits
            << " calls without Python\n";
  check(naive.stats().traces == kLengths, "a trace for each length");
  check(score.stats().traces == 1, "one trace for all lengths");
  check(a == b, "the same numbers");
  tracehost::embed::stop();
} catch (const tracehost::Error &e) {
  std::cerr << e.what() << "\n";
  return 1;
}
