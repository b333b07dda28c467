# The headers of PyPI's CUDA wheels, which a CUDA build of torch brings: nvidia/cu13 for CUDA 13, one folder a library for CUDA 12.
# TRACEHOST_CUDA_INCLUDES is empty without them, or where torch is a CPU build. Nothing here needs a toolkit or a GPU.
get_filename_component(site_packages "${TRACEHOST_PYTHON_TORCH_DIR}" DIRECTORY)
set(TRACEHOST_CUDA_WHEELS "${site_packages}/nvidia")
file(GLOB TRACEHOST_CUDA_INCLUDES "${TRACEHOST_CUDA_WHEELS}/cu1[0-9]/include" "${TRACEHOST_CUDA_WHEELS}/*/include")
set(cuda_runtime_headers ${TRACEHOST_CUDA_INCLUDES})
list(FILTER cuda_runtime_headers INCLUDE REGEX "/(cu1[0-9]|cuda_runtime)/include$")
# cuda_runtime.h includes headers of the compiler, crt/*.h, which torch's wheels have beside Triton.
list(APPEND TRACEHOST_CUDA_INCLUDES "${site_packages}/triton/backends/nvidia/include")
if(NOT cuda_runtime_headers OR NOT EXISTS "${TRACEHOST_PYTHON_TORCH_DIR}/lib/libtorch_cuda.so")
  set(TRACEHOST_CUDA_INCLUDES "")
else()
  foreach(lib torch_cuda c10_cuda)
    add_library(tracehost_wheel_${lib} SHARED IMPORTED GLOBAL)
    set_target_properties(tracehost_wheel_${lib} PROPERTIES IMPORTED_LOCATION "${TRACEHOST_PYTHON_TORCH_DIR}/lib/lib${lib}.so")
  endforeach()
endif()

# The plug-in for CUDA graphs, beside libtracehost.so, which loads it where a tensor is on a CUDA device.
if(NOT TRACEHOST_CUDA_INCLUDES)
  message(STATUS "tracehost: no CUDA graphs, because the headers of PyPI's CUDA wheels are missing (${TRACEHOST_CUDA_WHEELS})")
  return()
endif()
file(GLOB plugin_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/host/capture/cuda/*.cpp")
add_library(tracehost_cuda SHARED ${plugin_sources})
set_target_properties(tracehost_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/${lib_to_site}/torch/lib")
target_include_directories(tracehost_cuda PRIVATE "${PROJECT_SOURCE_DIR}/host")
target_include_directories(tracehost_cuda SYSTEM PRIVATE ${TRACEHOST_CUDA_INCLUDES})
target_compile_definitions(tracehost_cuda PRIVATE ${TRACEHOST_DEFINITIONS})
# CUDA's runtime itself: torch has loaded it.
target_link_libraries(tracehost_cuda PRIVATE tracehost::torch tracehost_wheel_torch_cuda tracehost_wheel_c10_cuda)
target_link_options(tracehost_cuda PRIVATE -Wl,-z,nodelete)
tracehost_warnings(tracehost_cuda)
