# What find_package(tracehost) and pkg-config find: a C++ package under the prefix, which may be moved. The library lies there
# once more beside Python's copy, under one SONAME: a process that comes to both loads one.
include(CMakePackageConfigHelpers)

# A wheel holds no links. CMake and pkg-config take the library by its full name.
if(SKBUILD)
  set(no_link NAMELINK_SKIP)
endif()

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/tracehost")
set_target_properties(tracehost_core PROPERTIES EXPORT_NAME runtime)
set_target_properties(tracehost_headers PROPERTIES EXPORT_NAME headers)
install(TARGETS tracehost_core tracehost_headers EXPORT tracehost-runtime-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${no_link} INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET tracehost_cuda) # loaded from beside the runtime
  install(TARGETS tracehost_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(EXPORT tracehost-runtime-targets NAMESPACE tracehost:: DESTINATION "${package}")
if(TARGET tracehost_embed)
  install(TARGETS tracehost_embed EXPORT tracehost-embed-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${no_link})
  install(EXPORT tracehost-embed-targets NAMESPACE tracehost:: DESTINATION "${package}")
endif()

# Where PyTorch was when this was built. That is of no use in a wheel: there it lies beside what the wheel installs.
if(SKBUILD)
  set(torch_for_config "")
  set(torch_for_pc "\${prefix}/${TRACEHOST_SITE}/torch")
else()
  set(torch_for_config "${TRACEHOST_PYTHON_TORCH_DIR}")
  set(torch_for_pc "${TRACEHOST_PYTHON_TORCH_DIR}")
endif()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/tracehost-config.cmake.in" "${PROJECT_BINARY_DIR}/tracehost-config.cmake"
  INSTALL_DESTINATION "${package}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tracehost-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tracehost-config.cmake" "${PROJECT_BINARY_DIR}/tracehost-config-version.cmake" DESTINATION "${package}")

file(RELATIVE_PATH TRACEHOST_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" TRACEHOST_PC_TO_PREFIX "${TRACEHOST_PC_TO_PREFIX}")
set(modules tracehost)
if(TARGET tracehost_embed)
  list(APPEND modules tracehost-embed)
endif()
if(EXISTS "${TRACEHOST_PYTHON_TORCH_DIR}/lib/libtorch_cuda.so")
  list(APPEND modules tracehost-cuda)
endif()
foreach(module IN LISTS modules)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${module}.pc.in" "${PROJECT_BINARY_DIR}/${module}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${module}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
