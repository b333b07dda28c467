# The binary: interpreter and command line. It must never link libtorch: start-up would go from 12 ms to 320.
file(GLOB interpreter_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/host/interpreter/*.cpp")
file(GLOB cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/host/cli/*.cpp")
list(REMOVE_ITEM cli_sources "${PROJECT_SOURCE_DIR}/host/cli/main.cpp")

# A wheel does not belong to the environment that it was built in.
set(baked_python "$<$<NOT:$<BOOL:${SKBUILD}>>:${TRACEHOST_PYTHON}>")
add_library(tracehost_interpreter STATIC ${interpreter_sources})
target_include_directories(tracehost_interpreter PUBLIC "${PROJECT_SOURCE_DIR}/host")
target_link_libraries(tracehost_interpreter PUBLIC tracehost::libpython)
target_compile_definitions(tracehost_interpreter PRIVATE TRACEHOST_BUILT_PYTHON="${TRACEHOST_PYTHON_VERSION}"
  TRACEHOST_BAKED_PYTHON="${baked_python}")
tracehost_warnings(tracehost_interpreter)
tracehost_unity(tracehost_interpreter)

add_library(tracehost_cli STATIC ${cli_sources})
target_include_directories(tracehost_cli PUBLIC "${PROJECT_SOURCE_DIR}/host")
target_link_libraries(tracehost_cli PUBLIC tracehost_interpreter PRIVATE Boost::program_options nlohmann_json::nlohmann_json)
target_compile_definitions(tracehost_cli PUBLIC TRACEHOST_VERSION="${PROJECT_VERSION}")
tracehost_warnings(tracehost_cli)
tracehost_unity(tracehost_cli)

add_executable(tracehost_binary "${PROJECT_SOURCE_DIR}/host/cli/main.cpp")
# The RPATH of the installed binary from the start: tracehost-python is a copy that the install step leaves as it is.
set_target_properties(tracehost_binary PROPERTIES OUTPUT_NAME tracehost BUILD_WITH_INSTALL_RPATH ON)
# Extension modules take Python's symbols from libpython, not from us: nothing is exported.
target_link_libraries(tracehost_binary PRIVATE tracehost_cli)
tracehost_warnings(tracehost_binary)
get_filename_component(libpython_real "${TRACEHOST_LIBPYTHON_DIR}" REALPATH)
if(NOT libpython_real MATCHES "^/(usr/)?lib(/|$)")
  set(libpython_rpath "${TRACEHOST_LIBPYTHON_DIR}")
endif()
set_target_properties(tracehost_binary PROPERTIES INSTALL_RPATH "${libpython_rpath}")

# The table of options as the binary prints it, and the manual page that is made of it.
file(GLOB command_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bindings/tracehost_commands/*.py")
add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/options.json" "${PROJECT_BINARY_DIR}/tracehost.1"
  COMMAND tracehost_binary --options-json > "${PROJECT_BINARY_DIR}/options.json"
  COMMAND "${TRACEHOST_PYTHON}" -B -m tracehost_commands.manual "${PROJECT_BINARY_DIR}/options.json" "${PROJECT_VERSION}" > "${PROJECT_BINARY_DIR}/tracehost.1"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/bindings"
  DEPENDS tracehost_binary ${command_sources} VERBATIM)
add_custom_target(tracehost_manual ALL DEPENDS "${PROJECT_BINARY_DIR}/options.json" "${PROJECT_BINARY_DIR}/tracehost.1")

foreach(target tracehost_interpreter tracehost_cli tracehost_binary)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endforeach()

# libtracehost_embed.so: a C++ application's Python. It finds the extension module by its capsule, and the core as that does.
file(GLOB embed_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/host/embed/*.cpp")
add_library(tracehost_embed SHARED ${embed_sources})
set_target_properties(tracehost_embed PROPERTIES SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON EXPORT_NAME embed)
target_link_options(tracehost_embed PRIVATE -Wl,-z,nodelete "-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/tracehost.map")
set_property(TARGET tracehost_embed APPEND PROPERTY LINK_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/tracehost.map")
set(embed_rpath "$ORIGIN" ${libpython_rpath})
set_target_properties(tracehost_embed PROPERTIES INSTALL_RPATH "${embed_rpath}")
target_link_libraries(tracehost_embed PUBLIC tracehost_core PRIVATE "$<BUILD_INTERFACE:tracehost_interpreter>")
tracehost_warnings(tracehost_embed)
tracehost_unity(tracehost_embed)
