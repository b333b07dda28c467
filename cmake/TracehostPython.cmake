# The one Python that everything is built for: that of TRACEHOST_PYTHON. Headers, libpython and paths are asked of
# this interpreter itself, because a machine often has two Pythons of the same X.Y and CMake may find the other one.
if(SKBUILD)
  # Asked each time: the build tree of a wheel outlives the environment that it was made for.
  execute_process(COMMAND "${Python_EXECUTABLE}" -I "${CMAKE_CURRENT_LIST_DIR}/wheel_metadata.py" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE TRACEHOST_PYTHON ERROR_VARIABLE trouble RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR " ${trouble}")
  endif()
elseif(NOT TRACEHOST_PYTHON)
  find_program(TRACEHOST_PYTHON_FOUND NAMES python3 PATHS "${PROJECT_SOURCE_DIR}/.venv/bin" NO_DEFAULT_PATH NO_CACHE)
  if(NOT TRACEHOST_PYTHON_FOUND)
    message(FATAL_ERROR "tracehost: no Python to build for. Run scripts/setup, or give -DTRACEHOST_PYTHON=<venv>/bin/python")
  endif()
  set(TRACEHOST_PYTHON "${TRACEHOST_PYTHON_FOUND}" CACHE FILEPATH "" FORCE)
endif()

execute_process(
  COMMAND "${TRACEHOST_PYTHON}" -I "${CMAKE_CURRENT_LIST_DIR}/describe_python.py"
  OUTPUT_VARIABLE facts ERROR_VARIABLE trouble RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "tracehost: ${TRACEHOST_PYTHON} could not be asked for its paths: ${trouble}")
endif()
foreach(fact VERSION SHORT_VERSION INCLUDE LIBRARY LIBRARY_DIRS SOABI PURELIB PREFIX STDLIB TORCH_DIR TORCH_VERSION)
  if(NOT DEFINED CACHE{TRACEHOST_PYTHON_${fact}}) # -DTRACEHOST_PYTHON_INCLUDE=... : headers that lie elsewhere
    string(JSON TRACEHOST_PYTHON_${fact} GET "${facts}" ${fact})
  endif()
endforeach()
if(TRACEHOST_PYTHON_SHORT_VERSION VERSION_LESS 3.11 OR TRACEHOST_PYTHON_SHORT_VERSION VERSION_GREATER 3.14)
  message(FATAL_ERROR "tracehost: Python ${TRACEHOST_PYTHON_VERSION} (${TRACEHOST_PYTHON}) is not supported; use 3.11, 3.12, 3.13 or 3.14")
endif()
if(NOT EXISTS "${TRACEHOST_PYTHON_INCLUDE}/Python.h")
  message(FATAL_ERROR "tracehost: no Python.h in ${TRACEHOST_PYTHON_INCLUDE}; on Debian: apt-get install python3-dev")
endif()

add_library(tracehost::python_headers INTERFACE IMPORTED)
target_include_directories(tracehost::python_headers SYSTEM INTERFACE "${TRACEHOST_PYTHON_INCLUDE}")

find_library(TRACEHOST_LIBPYTHON NAMES ${TRACEHOST_PYTHON_LIBRARY} PATHS ${TRACEHOST_PYTHON_LIBRARY_DIRS} NO_DEFAULT_PATH NO_CACHE)
if(NOT TRACEHOST_LIBPYTHON AND TRACEHOST_BUILD_CLI)
  message(FATAL_ERROR "tracehost: no ${TRACEHOST_PYTHON_LIBRARY} in ${TRACEHOST_PYTHON_LIBRARY_DIRS}; the host needs a shared libpython: "
                      "on Debian apt-get install python3-dev, with pyenv PYTHON_CONFIGURE_OPTS=--enable-shared")
endif()
# A same-named libpython elsewhere must not be taken at run time: its directory goes into the RPATH, system's excepted.
get_filename_component(TRACEHOST_LIBPYTHON_DIR "${TRACEHOST_LIBPYTHON}" DIRECTORY)
add_library(tracehost::libpython INTERFACE IMPORTED)
target_link_libraries(tracehost::libpython INTERFACE tracehost::python_headers "${TRACEHOST_LIBPYTHON}")
message(STATUS "tracehost: Python ${TRACEHOST_PYTHON_VERSION}, ${TRACEHOST_LIBPYTHON}")

# Where the packages lie under the prefix of a virtual environment: lib/python3.11/site-packages
file(RELATIVE_PATH TRACEHOST_SITE "${TRACEHOST_PYTHON_PREFIX}" "${TRACEHOST_PYTHON_PURELIB}")
