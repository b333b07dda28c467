// Classifies digits with what train.py saved: no Python is on board, as `ldd` shows.
//
//     classify_digits FOLDER

#include <tracehost/tracehost.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kThreads = 4, kCalls = 500;

at::Tensor read(const std::string &path, std::int64_t columns) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto floats = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  at::Tensor rows = at::empty({floats / columns, columns});
  std::copy(bytes.begin(), bytes.end(), static_cast<char *>(rows.data_ptr()));
  return rows;
}

/// Milliseconds of each of `kCalls` calls, an image each.
std::vector<double> classify(const tracehost::Function &predict, const at::Tensor &images) {
  std::vector<double> times;
  for (int i = 0; i < kCalls; ++i) {
    const auto start = Clock::now();
    predict(images.narrow(0, i % images.size(0), 1));
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return times;
}

int run(const std::string &folder) {
  const auto archive = tracehost::Archive::load(folder + "/digits.thz");
  const tracehost::Function predict = archive["predict"];
  for (const std::string &signature : predict.signatures())
    std::printf("predict%s\n", signature.c_str());
  const at::Tensor images = read(folder + "/images.f32", 64);
  const at::Tensor expected = read(folder + "/scores.f32", 10);

  const tracehost::Value result = predict(images);
  const at::Tensor scores = result["scores"];
  const double off = (scores - expected).abs().max().item<double>();
  std::printf("%lld images, at most %.1e from Python's results\n",
              static_cast<long long>(images.size(0)), off);
  const at::Tensor best = predict(images, tracehost::kw("top", 1))["best"];
  const bool same = at::equal(best.squeeze(1), expected.argmax(1));

  at::set_num_threads(1); // each call has a thread of its own
  predict.warm_up({"f32[1,64]"});
  std::vector<std::vector<double>> times(kThreads);
  std::vector<std::thread> threads;
  for (auto &own : times)
    threads.emplace_back([&] { own = classify(predict, images); });
  for (auto &thread : threads)
    thread.join();
  std::vector<double> all;
  for (const auto &own : times)
    all.insert(all.end(), own.begin(), own.end());
  std::sort(all.begin(), all.end());
  std::printf("%d threads, %zu calls: p50 %.3f ms, p99 %.3f ms\n", kThreads, all.size(),
              all[all.size() / 2], all[all.size() * 99 / 100]);

  try {
    predict(at::zeros({1, 80}));
  } catch (const tracehost::SignatureError &e) {
    std::printf("%s\n", e.what());
  }
  return off < 1e-5 && same ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return argc == 2 ? run(argv[1]) : (std::fputs("classify_digits FOLDER\n", stderr), 2);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
