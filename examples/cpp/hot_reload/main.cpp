// Four threads call a model while its file is replaced, and while it is replaced by rubbish: no
// call fails, and each is answered by one version or the next.
//
//     hot_reload FOLDER       with version1.thz, version2.thz, version3.thz of save.py

#include <tracehost/tracehost.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// As a deployment does it: under another name, then renamed, so that no reader sees half a file.
void replace(const fs::path &live, const fs::path &by) {
  const fs::path aside = live.string() + ".new";
  fs::copy_file(by, aside, fs::copy_options::overwrite_existing);
  fs::last_write_time(aside, fs::file_time_type::clock::now());
  fs::rename(aside, live);
}

struct Load {
  std::atomic<bool> ends{false};
  std::atomic<long> calls{0}, failed{0};
  std::atomic<long> answers[4] = {};

  void call(const tracehost::Function &add) {
    const at::Tensor x = at::zeros({4, 8});
    while (!ends) {
      try {
        const at::Tensor y = add(x);
        const auto version = static_cast<int>(y[0][0].item<float>());
        const bool whole = at::equal(y, at::full({4, 8}, version));
        (whole && version >= 1 && version <= 3 ? answers[version] : failed)++;
      } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        failed++;
      }
      calls++;
    }
  }
};

int run(const fs::path &folder) {
  const fs::path live = folder / "live.thz";
  replace(live, folder / "version1.thz");
  int rejected = 0, reloaded = 0;
  tracehost::Watcher watcher(live.string(),
                             {.interval = std::chrono::milliseconds(0), // looked at below
                              .on_reload = [&](const tracehost::Archive &) { ++reloaded; },
                              .on_error =
                                  [&](const std::string &message) {
                                    std::printf("kept the old one: %s\n", message.c_str());
                                    ++rejected;
                                  }});
  const tracehost::Function add = watcher["add"];

  at::set_num_threads(1);
  Load load;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { load.call(add); });
  const auto serve = [&](long calls) { // under load: so many more calls
    for (const long until = load.calls + calls; load.calls < until;)
      std::this_thread::yield();
  };
  serve(200);
  for (const int version : {2, 3, 1, 2, 3}) {
    replace(live, folder / ("version" + std::to_string(version) + ".thz"));
    watcher.poll();
    serve(200);
    std::ofstream(folder / "rubbish") << "this is no archive";
    replace(live, folder / "rubbish");
    watcher.poll();
    watcher.poll(); // reported once
    serve(200);
  }
  load.ends = true;
  for (auto &thread : threads)
    thread.join();
  std::printf("%ld calls, %ld failed; %ld, %ld and %ld by the versions; %d reloads, %d rejected\n",
              load.calls.load(), load.failed.load(), load.answers[1].load(), load.answers[2].load(),
              load.answers[3].load(), reloaded, rejected);
  const bool all = load.answers[1] > 0 && load.answers[2] > 0 && load.answers[3] > 0;
  return load.failed == 0 && all && reloaded == 5 && rejected == 5 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return argc == 2 ? run(argv[1]) : (std::fputs("hot_reload FOLDER\n", stderr), 2);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
