# Language level, warnings, ccache: what every target of ours shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_MESSAGE LAZY)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# A precompiled header changes its bytes at every build; ccache has to be told that this is well.
find_program(TRACEHOST_CCACHE ccache)
if(TRACEHOST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${TRACEHOST_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

set(TRACEHOST_SANITIZE "" CACHE STRING "Sanitizers for our code, such as address,undefined or thread")
if(TRACEHOST_SANITIZE)
  # No vptr: it asks for the type information of classes that torch does not export.
  add_compile_options(-fsanitize=${TRACEHOST_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TRACEHOST_SANITIZE})
endif()

# For our own targets only: headers of others come in as SYSTEM and stay silent.
function(tracehost_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TRACEHOST_WERROR}>:-Werror>)
endfunction()

# A file that faces torch takes 3 to 7 s before its first own line. Files of one folder are compiled together, a few at a time, and
# share that. Each must still compile alone: clang-tidy and the dev preset take them one by one.
option(TRACEHOST_UNITY "Compile the files of a folder together: a full build takes half the time" ON)
function(tracehost_unity target)
  if(NOT TRACEHOST_UNITY)
    return()
  endif()
  set(together 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT DEFINED count_${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR batch "${count_${folder}} / ${together}")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${batch}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# A release library is small: its debug information lies beside it as NAME.debug, which gdb finds in a folder .debug beside the
# library. `cmake --install BUILD --component debug` installs it there, for each folder that is named.
function(tracehost_debug_apart target)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_OBJCOPY)
    return()
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${CMAKE_OBJCOPY}" --only-keep-debug "$<TARGET_FILE:${target}>" "$<TARGET_FILE:${target}>.debug"
    COMMAND "${CMAKE_OBJCOPY}" --strip-debug "--add-gnu-debuglink=$<TARGET_FILE:${target}>.debug" "$<TARGET_FILE:${target}>"
    VERBATIM)
  foreach(folder IN LISTS ARGN)
    install(FILES "$<TARGET_FILE:${target}>.debug" DESTINATION "${folder}/.debug" COMPONENT debug EXCLUDE_FROM_ALL)
  endforeach()
endfunction()
