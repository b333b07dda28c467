# `cmake --install <build> --prefix <venv>`: copies, no links, so that a build tree may be deleted. For a wheel the prefix is what
# pip copies to a prefix; packages and commands lie beside it, in folders from which pip takes them to where they belong.
if(SKBUILD)
  set(site "${SKBUILD_PLATLIB_DIR}")
  set(commands "${SKBUILD_SCRIPTS_DIR}")
else()
  set(site "${TRACEHOST_SITE}")
  set(commands bin)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost/" DESTINATION "${site}/tracehost"
  FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "*.jinja" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
# Commands that are made in Python. A package of its own: notebooks start without torch.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_commands/" DESTINATION "${site}/tracehost_commands"
  FILES_MATCHING PATTERN "*.py" PATTERN "tracehost.*" PATTERN "__pycache__" EXCLUDE)
# What --trace and --intercept load before the program runs: without torch, too.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_interception/" DESTINATION "${site}/tracehost_interception"
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
# The file of `tracehost lock`, which both of these read: without torch, too.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_lock/" DESTINATION "${site}/tracehost_lock"
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/tracehost_pytest/" DESTINATION "${site}/tracehost_pytest"
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/host/include/tracehost" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(TARGETS tracehost_core LIBRARY DESTINATION "${site}/tracehost/lib" NAMELINK_SKIP)
if(TARGET tracehost_cuda)
  install(TARGETS tracehost_cuda LIBRARY DESTINATION "${site}/tracehost/lib")
endif()
include(TracehostPackage)
install(TARGETS tracehost_module LIBRARY DESTINATION "${site}/tracehost")
if(TARGET tracehost_binary)
  install(TARGETS tracehost_binary RUNTIME DESTINATION "${commands}")
  # The same binary, which goes by its name: this one is Python and knows no option of ours.
  install(PROGRAMS "$<TARGET_FILE:tracehost_binary>" DESTINATION "${commands}" RENAME tracehost-python)
  # The options of `run`, from the one table, for the help and the other commands; and the manual page of all.
  install(FILES "${PROJECT_BINARY_DIR}/options.json" DESTINATION "${site}/tracehost_commands")
  install(FILES "${PROJECT_BINARY_DIR}/tracehost.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()

# What `tracehost doctor` reads: it does not have to import anything.
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_info.in" "${PROJECT_BINARY_DIR}/build_info.txt" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/build_info.txt" DESTINATION "${site}/tracehost")

tracehost_debug_apart(tracehost_core "${site}/tracehost/lib" "${CMAKE_INSTALL_LIBDIR}")
tracehost_debug_apart(tracehost_module "${site}/tracehost")
if(TARGET tracehost_embed)
  tracehost_debug_apart(tracehost_embed "${CMAKE_INSTALL_LIBDIR}")
  tracehost_debug_apart(tracehost_binary "${commands}")
endif()

# What `pip list` reads, and the list of files by which pip can put another tracehost in the place of this one. A wheel has its own.
if(NOT SKBUILD)
  set(info "tracehost-${PROJECT_VERSION}.dist-info")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/METADATA.in" "${PROJECT_BINARY_DIR}/${info}/METADATA" @ONLY)
  file(WRITE "${PROJECT_BINARY_DIR}/${info}/INSTALLER" "cmake\n")
  file(WRITE "${PROJECT_BINARY_DIR}/${info}/entry_points.txt" "[pytest11]\ntracehost = tracehost_pytest\n")
  # A module that has moved must not stay importable under its old name, nor a library of an earlier version stay behind. Only
  # files that an earlier installation has listed are removed, and none where a package is made (DESTDIR).
  install(CODE "
    set(site \"\${CMAKE_INSTALL_PREFIX}/${site}\")
    if(\"\$ENV{DESTDIR}\" STREQUAL \"\")
      file(GLOB records \"\${site}/tracehost-[0-9]*.dist-info/RECORD\")
      foreach(record IN LISTS records)
        file(STRINGS \"\${record}\" entries)
        foreach(entry IN LISTS entries)
          string(REGEX REPLACE \",[^,]*,[^,]*$\" \"\" file \"\${entry}\")
          list(FIND CMAKE_INSTALL_MANIFEST_FILES \"\${site}/\${file}\" installed)
          if(file MATCHES \"^tracehost.*(\\\\.py|/libtracehost\\\\.so[.0-9]*)$\" AND installed EQUAL -1)
            file(REMOVE \"\${site}/\${file}\")
          endif()
        endforeach()
        get_filename_component(info \"\${record}\" DIRECTORY)
        file(REMOVE_RECURSE \"\${info}\")
      endforeach()
    endif()")
  install(DIRECTORY "${PROJECT_BINARY_DIR}/${info}" DESTINATION "${site}")
  install(CODE "
    set(site \"\${CMAKE_INSTALL_PREFIX}/${site}\")
    set(record \"${info}/RECORD,,\\n\")
    foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
      file(RELATIVE_PATH file \"\${site}\" \"\${file}\")
      string(APPEND record \"\${file},,\\n\")
    endforeach()
    file(WRITE \"\$ENV{DESTDIR}\${site}/${info}/RECORD\" \"\${record}\")")
endif()
