# libtracehost.so (no Python) and the extension module _tracehost.
set(TRACEHOST_DEFINITIONS TRACEHOST_VERSION="${PROJECT_VERSION}" TRACEHOST_BUILT_TORCH="${TRACEHOST_TORCH_VERSION}"
    TRACEHOST_BUILT_PYTHON="${TRACEHOST_PYTHON_VERSION}")

set(core_sources)
foreach(folder signature event region tape capture program cache shapes trace staging validate function report archive runtime)
  file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/host/${folder}/*.cpp")
  list(APPEND core_sources ${found})
endforeach()
# Machine code for pointwise regions: with xbyak's headers, on x86-64.
if(TRACEHOST_XBYAK_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(FILTER core_sources EXCLUDE REGEX "/region/machine_none\\.cpp$")
else()
  list(FILTER core_sources EXCLUDE REGEX "/region/(assembler|instructions|machine_xbyak)\\.cpp$")
endif()
add_library(tracehost_core SHARED ${core_sources})
# One SONAME for each minor version of ours. It is installed twice: beside Python's package, where PyTorch lies two folders up,
# and in the prefix's own lib, where a program that links it brings PyTorch, or the prefix is a virtual environment.
file(RELATIVE_PATH lib_to_site "${TRACEHOST_PYTHON_PREFIX}/${CMAKE_INSTALL_LIBDIR}" "${TRACEHOST_PYTHON_PURELIB}")
set_target_properties(tracehost_core PROPERTIES OUTPUT_NAME tracehost SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  INSTALL_RPATH "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/${lib_to_site}/torch/lib" VISIBILITY_INLINES_HIDDEN ON)
# Bound inside the library: its own functions are called directly, not by way of the PLT.
# A product is rounded before it is added to, on machines that could do both at once, too: the ops on numbers give CPython's bits.
target_compile_options(tracehost_core PRIVATE -fno-semantic-interposition -ffp-contract=off)
# Never unloaded: libtorch keeps what it has registered, and exit() what ending.cpp has.
target_link_options(tracehost_core PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,nodelete
  "-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/tracehost.map")
set_property(TARGET tracehost_core APPEND PROPERTY LINK_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/tracehost.map")
add_library(tracehost_headers INTERFACE)
target_include_directories(tracehost_headers INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/host/include>")
target_link_libraries(tracehost_headers INTERFACE tracehost::torch)
target_include_directories(tracehost_core PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/host>")
foreach(definition ${TRACEHOST_DEFINITIONS})
  target_compile_definitions(tracehost_core PUBLIC "$<BUILD_INTERFACE:${definition}>")
endforeach()
# What our own sources use is nothing that a program has to have.
target_link_libraries(tracehost_core PUBLIC tracehost_headers "$<BUILD_INTERFACE:fmt::fmt-header-only>"
  "$<BUILD_INTERFACE:nlohmann_json::nlohmann_json>")
target_include_directories(tracehost_core SYSTEM PRIVATE "${TRACEHOST_XXHASH_INCLUDE}")
target_link_libraries(tracehost_core PRIVATE OpenSSL::Crypto)
if(TRACEHOST_XBYAK_INCLUDE)
  target_include_directories(tracehost_core SYSTEM PRIVATE "${TRACEHOST_XBYAK_INCLUDE}")
endif()
target_precompile_headers(tracehost_core PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h")
# Without these ATen's headers declare its table of kernels as if the CPU had no vectors: other parameters, other symbols.
target_compile_definitions(tracehost_core PRIVATE HAVE_AVX2_CPU_DEFINITION HAVE_AVX512_CPU_DEFINITION)
tracehost_warnings(tracehost_core)
tracehost_unity(tracehost_core)

file(GLOB module_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bindings/src/*.cpp" "${PROJECT_SOURCE_DIR}/bindings/src/*/*.cpp")
# Of two files with one interface, the one for this Python.
if(TRACEHOST_PYTHON_SHORT_VERSION VERSION_LESS 3.12)
  list(FILTER module_sources EXCLUDE REGEX "/base/dict_watchers\\.cpp$")
else()
  list(FILTER module_sources EXCLUDE REGEX "/base/dict_tags\\.cpp$")
endif()
# A module, which takes Python's symbols from the process that loads it: linking libpython here would load a second one.
add_library(tracehost_module MODULE ${module_sources})
set_target_properties(tracehost_module PROPERTIES OUTPUT_NAME _tracehost PREFIX "" SUFFIX ".${TRACEHOST_PYTHON_SOABI}.so"
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH "$ORIGIN/lib:$ORIGIN/../torch/lib")
target_include_directories(tracehost_module PRIVATE "${PROJECT_SOURCE_DIR}/bindings/src" "${PROJECT_SOURCE_DIR}/host" "${PROJECT_SOURCE_DIR}/host/include")
target_compile_definitions(tracehost_module PRIVATE ${TRACEHOST_DEFINITIONS} TORCH_EXTENSION_NAME=_tracehost)
target_link_libraries(tracehost_module PRIVATE tracehost::torch_python fmt::fmt-header-only tracehost_core)
target_precompile_headers(tracehost_module PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_python_pch.h")
tracehost_warnings(tracehost_module)
tracehost_unity(tracehost_module)
