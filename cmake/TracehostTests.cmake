# tests/cpp: those of cli/ need no torch and start in a millisecond; all others are one executable that loads it once.
file(GLOB core_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/*/*_test.cpp")
file(GLOB cli_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/cli/*_test.cpp")
list(REMOVE_ITEM core_tests ${cli_tests})

if(TARGET tracehost_cli)
  add_executable(tracehost_cli_tests ${cli_tests})
  target_link_libraries(tracehost_cli_tests PRIVATE tracehost_cli GTest::gmock GTest::gtest_main)
  target_compile_definitions(tracehost_cli_tests PRIVATE TRACEHOST_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/cpp/data")
  tracehost_warnings(tracehost_cli_tests)
  tracehost_unity(tracehost_cli_tests)
  add_test(NAME cli COMMAND tracehost_cli_tests)
endif()

add_executable(tracehost_tests ${core_tests})
target_include_directories(tracehost_tests PRIVATE "${PROJECT_SOURCE_DIR}/tests/cpp")
target_link_libraries(tracehost_tests PRIVATE tracehost_core tracehost_wheel_torch GTest::gmock GTest::gtest_main)
target_precompile_headers(tracehost_tests PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h" <gtest/gtest.h> <gmock/gmock.h>)
tracehost_warnings(tracehost_tests)
tracehost_unity(tracehost_tests)
# A table of the bindings that needs no Python.
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/cpp/observe/fate_test.cpp"
  PROPERTIES INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/bindings/src")
target_compile_options(tracehost_tests PRIVATE -O1) # what is measured is built elsewhere
add_test(NAME core COMMAND tracehost_tests)

# An application that embeds Python; one process a case, by tests/python/archive/test_embed.py.
if(TARGET tracehost_embed)
  add_executable(tracehost_embed_cases "${PROJECT_SOURCE_DIR}/tests/embed/cases.cpp")
  target_link_libraries(tracehost_embed_cases PRIVATE tracehost_embed tracehost::libpython)
  tracehost_warnings(tracehost_embed_cases)
  add_library(tracehost_embed_plugin MODULE "${PROJECT_SOURCE_DIR}/tests/embed/plugin.cpp")
  target_link_libraries(tracehost_embed_plugin PRIVATE tracehost_embed)
  tracehost_warnings(tracehost_embed_plugin)
  add_executable(tracehost_embed_loader "${PROJECT_SOURCE_DIR}/tests/embed/loader.cpp")
  target_link_libraries(tracehost_embed_loader PRIVATE ${CMAKE_DL_LIBS})
  tracehost_warnings(tracehost_embed_loader)
endif()

# CUDA devices for tests without a GPU.
add_subdirectory("${PROJECT_SOURCE_DIR}/tests/standin" standin-build)
