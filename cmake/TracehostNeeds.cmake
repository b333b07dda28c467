# What the machine has to have. All that is missing is told at once, by the names of Debian's packages.
set(missing)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
else()
  list(APPEND missing g++)
endif()

if(CMAKE_CXX_COMPILER) # without one, packages are not found that are there
  # Header-only: torch carries an fmt of its own in its include directory, which is found first and is not the one apt has a
  # library of. Their inline namespaces keep them apart.
  find_package(fmt QUIET)
  if(NOT fmt_FOUND)
    list(APPEND missing libfmt-dev)
  endif()
  find_package(nlohmann_json QUIET)
  if(NOT nlohmann_json_FOUND)
    list(APPEND missing nlohmann-json3-dev)
  endif()
  find_path(TRACEHOST_XXHASH_INCLUDE xxhash.h DOC "Folder of xxhash.h, of which only inline code is used")
  if(NOT TRACEHOST_XXHASH_INCLUDE)
    list(APPEND missing libxxhash-dev)
  endif()
  # Optional (libxbyak-dev). Without it tapes have no regions of machine code.
  find_path(TRACEHOST_XBYAK_INCLUDE xbyak/xbyak.h DOC "Folder of xbyak/xbyak.h, which writes machine code; may be absent")
  if(TRACEHOST_BUILD_CLI)
    # Static: one library less to load at each start, also in every child.
    set(Boost_USE_STATIC_LIBS ON)
    find_package(Boost 1.74 QUIET CONFIG COMPONENTS program_options)
    if(NOT Boost_FOUND)
      list(APPEND missing libboost-program-options-dev)
    endif()
  endif()
  if(TRACEHOST_BUILD_TESTS)
    find_package(GTest QUIET)
    if(NOT GTest_FOUND)
      list(APPEND missing libgtest-dev libgmock-dev)
    endif()
  endif()
endif()

if(missing)
  list(JOIN missing " " missing)
  # A line that begins with a space is not wrapped.
  message(FATAL_ERROR " tracehost: this machine lacks what these packages of Debian have: apt-get install ${missing}")
endif()
