# `cmake --install <build> --prefix <venv>`: copies, no links, so that a build tree may be deleted.
file(RELATIVE_PATH site "${TRACEHOST_PYTHON_PREFIX}" "${TRACEHOST_PYTHON_PURELIB}")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost/" DESTINATION "${site}/tracehost"
  FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
# Commands that are made in Python. A package of its own: notebooks start without torch.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_commands/" DESTINATION "${site}/tracehost_commands"
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
# What --trace and --intercept load before the program runs: without torch, too.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_interception/" DESTINATION "${site}/tracehost_interception"
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/host/include/tracehost" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
if(TARGET tracehost_core)
  install(TARGETS tracehost_core LIBRARY DESTINATION "${site}/tracehost/lib" NAMELINK_SKIP)
  include(TracehostPackage)
endif()
if(TARGET tracehost_module)
  install(TARGETS tracehost_module LIBRARY DESTINATION "${site}/tracehost")
endif()
if(TARGET tracehost_binary)
  install(TARGETS tracehost_binary RUNTIME DESTINATION bin)
  # The same binary, which goes by its name: this one is Python and knows no option of ours.
  install(PROGRAMS "$<TARGET_FILE:tracehost_binary>" DESTINATION bin RENAME tracehost-python)
endif()

# What `pip list` and `tracehost doctor` read: neither has to import anything.
set(info "${PROJECT_BINARY_DIR}/tracehost-${PROJECT_VERSION}.dist-info")
configure_file("${CMAKE_CURRENT_LIST_DIR}/METADATA.in" "${info}/METADATA" @ONLY)
file(WRITE "${info}/INSTALLER" "cmake\n")
install(DIRECTORY "${info}" DESTINATION "${site}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_info.in" "${PROJECT_BINARY_DIR}/build_info.txt" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/build_info.txt" DESTINATION "${site}/tracehost")
