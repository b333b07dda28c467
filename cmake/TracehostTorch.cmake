# tracehost::torch and tracehost::torch_python, made from the wheel that the venv's Python imports. find_package(Torch) is not
# used: with a CUDA wheel it wants nvcc and a toolkit, and we compile no CUDA.
set(TRACEHOST_TORCH_OLDEST 2.11)
set(TRACEHOST_TORCH_NEWEST 2.15)
set(torch_dir "${TRACEHOST_PYTHON_TORCH_DIR}")
if(NOT torch_dir)
  message(FATAL_ERROR "tracehost: ${TRACEHOST_PYTHON} has no torch; scripts/setup installs it")
endif()
# "2.15.0+cu132": the part behind the + names the CUDA that it was built for, and is of no account here.
string(REGEX REPLACE "\\+.*" "" TRACEHOST_TORCH_VERSION "${TRACEHOST_PYTHON_TORCH_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" TRACEHOST_TORCH_MINOR "${TRACEHOST_TORCH_VERSION}")
if(TRACEHOST_TORCH_MINOR VERSION_LESS TRACEHOST_TORCH_OLDEST OR TRACEHOST_TORCH_MINOR VERSION_GREATER TRACEHOST_TORCH_NEWEST)
  message(FATAL_ERROR "tracehost: torch ${TRACEHOST_TORCH_VERSION} (${torch_dir}) is outside the supported "
                      "${TRACEHOST_TORCH_OLDEST} to ${TRACEHOST_TORCH_NEWEST}; run scripts/setup, or install torch==2.15.0")
endif()
message(STATUS "tracehost: torch ${TRACEHOST_PYTHON_TORCH_VERSION}, ${torch_dir}")

foreach(lib torch torch_cpu c10 torch_python) # torch: a stub that brings the CUDA part where there is one
  if(NOT EXISTS "${torch_dir}/lib/lib${lib}.so")
    message(FATAL_ERROR "tracehost: ${torch_dir}/lib/lib${lib}.so is missing; reinstall torch ${TRACEHOST_TORCH_VERSION}")
  endif()
  add_library(tracehost_wheel_${lib} SHARED IMPORTED)
  set_target_properties(tracehost_wheel_${lib} PROPERTIES IMPORTED_LOCATION "${torch_dir}/lib/lib${lib}.so")
endforeach()

add_library(tracehost::torch INTERFACE IMPORTED)
target_include_directories(tracehost::torch SYSTEM INTERFACE "${torch_dir}/include" "${torch_dir}/include/torch/csrc/api/include")
# The layout of at::RecordFunction depends on NDEBUG: without it, in any build type, callbacks read garbage.
target_compile_definitions(tracehost::torch INTERFACE NDEBUG)
target_link_options(tracehost::torch INTERFACE -Wl,--no-as-needed -Wl,--allow-shlib-undefined)
# Without CUDA's libraries: what is to use them brings them, as Python's torch does, or tracehost::cuda.
target_link_libraries(tracehost::torch INTERFACE tracehost_wheel_torch_cpu tracehost_wheel_c10)

# torch's bundled pybind11 lies in torch/include; the order above keeps any other one from being seen first.
add_library(tracehost::torch_python INTERFACE IMPORTED)
target_link_libraries(tracehost::torch_python INTERFACE tracehost::torch tracehost_wheel_torch_python tracehost::python_headers)

# Proved once for each build tree, by a compiler: NDEBUG arrives in a torch-facing file of a Debug build, and std::string is the
# one that the wheel was built with (the link fails otherwise).
if(NOT TRACEHOST_TORCH_CHECKED STREQUAL "${torch_dir}:${TRACEHOST_TORCH_VERSION}")
  set(CMAKE_TRY_COMPILE_CONFIGURATION Debug)
  try_compile(torch_usable "${PROJECT_BINARY_DIR}/torch-check" SOURCES "${CMAKE_CURRENT_LIST_DIR}/torch_check.cpp"
    LINK_LIBRARIES tracehost::torch CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON OUTPUT_VARIABLE torch_check_output)
  if(NOT torch_usable)
    message(FATAL_ERROR "tracehost: a file that includes torch ${TRACEHOST_TORCH_VERSION} does not build as it must "
                        "(NDEBUG set, C++11 ABI on):\n${torch_check_output}")
  endif()
  set(TRACEHOST_TORCH_CHECKED "${torch_dir}:${TRACEHOST_TORCH_VERSION}" CACHE INTERNAL "")
endif()
