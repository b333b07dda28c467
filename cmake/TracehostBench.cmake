# tests/bench/*_bench.cpp: one executable, Google Benchmark; built on request: cmake --build <dir> --target tracehost_bench
find_package(benchmark QUIET)
file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/bench/*_bench.cpp")
if(bench_sources AND benchmark_FOUND AND TARGET tracehost_core)
  add_executable(tracehost_bench EXCLUDE_FROM_ALL ${bench_sources})
  target_link_libraries(tracehost_bench PRIVATE tracehost_core benchmark::benchmark benchmark::benchmark_main)
  target_precompile_headers(tracehost_bench PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h")
  tracehost_warnings(tracehost_bench)
endif()
