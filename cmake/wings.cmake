# SPDX-License-Identifier: Apache-2.0 OR MIT
# Wings: libraries of their own on the public interfaces, each with its own dependencies. They compile
# against src/base too: the static wing takes it from the static core; the shared wing has a private copy (its
# symbols are local), so that the shared core exports nothing for it.
#
# sft_wing(NAME DEPENDENCY...) makes sft_NAME_static and sft_NAME_shared (safetensors::NAME-static, -shared and
# safetensors::NAME) of src/NAME and its sub-rooms, and sft_NAME_objects for the tool and the tests. Exported: what
# src/libsafetensors-NAME.map lists. A wing of more rooms or headers than src/NAME and sft/NAME.h sets
# SFT_WING_NAME_ROOMS and SFT_WING_NAME_HEADERS before.
function(sft_wing_sources name out)
  set(rooms ${SFT_WING_${name}_ROOMS})
  if(NOT rooms)
    set(rooms ${name})
  endif()
  set(sources)
  foreach(room ${rooms})
    file(GLOB room_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c
      ${PROJECT_SOURCE_DIR}/src/${room}/*/*.c)
    list(APPEND sources ${room_sources})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

function(sft_wing name)
  sft_wing_sources(${name} sources)
  file(GLOB base CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c)
  # The core's own objects answer for these: a pool of the caller's is run by the core that made it.
  list(FILTER base EXCLUDE REGEX "/(pool|version)\\.c$")
  add_library(sft_${name}_objects OBJECT ${sources})
  target_link_libraries(sft_${name}_objects PRIVATE sft_flags ${ARGN} Threads::Threads)
  target_include_directories(sft_${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(sft_${name}_objects PRIVATE SFT_BUILDING SFT_STATIC)
  set_target_properties(sft_${name}_objects PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)

  add_library(sft_${name}_static STATIC $<TARGET_OBJECTS:sft_${name}_objects>)
  target_link_libraries(sft_${name}_static PUBLIC sft_static ${ARGN})
  set_target_properties(sft_${name}_static PROPERTIES EXPORT_NAME ${name}-static OUTPUT_NAME safetensors-${name})

  add_library(sft_${name}_shared SHARED ${sources} ${base})
  target_link_libraries(sft_${name}_shared PRIVATE $<BUILD_INTERFACE:sft_flags> ${ARGN} Threads::Threads
    PUBLIC sft_shared)
  target_include_directories(sft_${name}_shared PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(sft_${name}_shared PRIVATE SFT_BUILDING)
  set_target_properties(sft_${name}_shared PROPERTIES EXPORT_NAME ${name}-shared OUTPUT_NAME safetensors-${name}
    C_VISIBILITY_PRESET hidden VERSION ${PROJECT_VERSION} SOVERSION ${SFT_SOVERSION})
  if(NOT WIN32 AND NOT APPLE)
    set(map ${PROJECT_SOURCE_DIR}/src/libsafetensors-${name}.map)
    target_link_options(sft_${name}_shared PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined
      -Wl,-Bsymbolic-functions)
    set_target_properties(sft_${name}_shared PROPERTIES LINK_DEPENDS ${map} INSTALL_RPATH "\$ORIGIN"
      BUILD_WITH_INSTALL_RPATH ON)
  endif()
  add_library(safetensors::${name}-static ALIAS sft_${name}_static)
  add_library(safetensors::${name}-shared ALIAS sft_${name}_shared)
  if(BUILD_SHARED_LIBS)
    add_library(safetensors::${name} ALIAS sft_${name}_shared)
  else()
    add_library(safetensors::${name} ALIAS sft_${name}_static)
  endif()
endfunction()

set(SFT_WINGS)
# Layouts and checkpoints of many files: nothing that a program which loads one model needs.
set(SFT_WING_checkpoint_ROOMS layout checkpoint)
set(SFT_WING_checkpoint_HEADERS layout mindspore checkpoint layout_set job names checkpoint_open checkpoint_group checkpoint_api)
sft_wing(checkpoint)
list(APPEND SFT_WINGS checkpoint)
# The driver's memory addresses are 64 bits wide here; what it opens at run time is dlopen's.
if(UNIX AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(SFT_WING_cuda_HEADERS cuda dlpack)
  sft_wing(cuda ${CMAKE_DL_LIBS})
  list(APPEND SFT_WINGS cuda)
endif()
if(SFT_BUILD_IMPORT)
  find_package(ZLIB)
  if(ZLIB_FOUND)
    # Dequantised values are rounded twice, as ggml's are: never fused; and the loops are worth vectorising.
    if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
      set_source_files_properties(${PROJECT_SOURCE_DIR}/src/import/gguf/dequant.c PROPERTIES COMPILE_OPTIONS
        "-ffp-contract=off;$<$<NOT:$<CONFIG:Debug>>:-O3>")
    endif()
    sft_wing(import ZLIB::ZLIB)
    list(APPEND SFT_WINGS import)
  elseif(CMAKE_CROSSCOMPILING)
    message(STATUS "import wing: not built, there is no zlib for this target")
  else()
    message(FATAL_ERROR "zlib not found: run scripts/bootstrap.sh, or configure with -DSFT_BUILD_IMPORT=OFF")
  endif()
endif()

if(SFT_BUILD_REMOTE)
  if(WIN32 OR CMAKE_CROSSCOMPILING)
    message(STATUS "remote wing: not built for this target")
  else()
    find_package(CURL 7.85)
    if(NOT CURL_FOUND)
      message(FATAL_ERROR "libcurl not found: run scripts/bootstrap.sh, or configure with -DSFT_BUILD_REMOTE=OFF")
    endif()
    sft_wing(remote CURL::libcurl)
    list(APPEND SFT_WINGS remote)
  endif()
endif()

# MPI is found or not: nothing but safetensors-mpi needs it. The wing speaks to the checkpoint wing by its public
# headers.
if(SFT_MPI AND NOT WIN32 AND NOT CMAKE_CROSSCOMPILING)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    sft_wing(mpi MPI::MPI_C)
    target_link_libraries(sft_mpi_static PUBLIC sft_checkpoint_static)
    target_link_libraries(sft_mpi_shared PUBLIC sft_checkpoint_shared)
    list(APPEND SFT_WINGS mpi)
  else()
    message(STATUS "MPI wing: not built, there is no MPI (Debian: libopenmpi-dev openmpi-bin)")
  endif()
endif()

# How the tool reaches a wing: linked in (SFT_WING_<NAME>_LINKED), or opened by dlopen on first use, from the folder
# of the libraries beside its own (SFT_WING_<NAME>_DLOPEN). A wing whose dependencies take time to load is
# always opened. Nothing of either runs before a command asks for the wing.
function(sft_tool_wings tool)
  set(opened FALSE)
  if("import" IN_LIST SFT_WINGS)
    if(BUILD_SHARED_LIBS AND NOT WIN32)
      target_compile_definitions(${tool} PRIVATE SFT_WING_IMPORT_DLOPEN="$<TARGET_SONAME_FILE_NAME:sft_import_shared>")
      add_dependencies(${tool} sft_import_shared)
      set(opened TRUE)
    else()
      target_sources(${tool} PRIVATE $<TARGET_OBJECTS:sft_import_objects>)
      target_compile_definitions(${tool} PRIVATE SFT_WING_IMPORT_LINKED)
      # The static zlib where there is one: loading the shared one would cost every start of the tool.
      find_library(SFT_ZLIB_ARCHIVE NAMES libz.a)
      mark_as_advanced(SFT_ZLIB_ARCHIVE)
      if(SFT_ZLIB_ARCHIVE)
        target_link_libraries(${tool} PRIVATE ${SFT_ZLIB_ARCHIVE})
      else()
        target_link_libraries(${tool} PRIVATE ZLIB::ZLIB)
      endif()
    endif()
  endif()
  if(BUILD_SHARED_LIBS AND NOT WIN32)
    target_compile_definitions(${tool} PRIVATE SFT_WING_CHECKPOINT_DLOPEN="$<TARGET_SONAME_FILE_NAME:sft_checkpoint_shared>")
    add_dependencies(${tool} sft_checkpoint_shared)
    set(opened TRUE)
  else()
    target_sources(${tool} PRIVATE $<TARGET_OBJECTS:sft_checkpoint_objects>)
    target_compile_definitions(${tool} PRIVATE SFT_WING_CHECKPOINT_LINKED)
  endif()
  if("remote" IN_LIST SFT_WINGS) # libcurl brings some thirty libraries: never linked in
    target_compile_definitions(${tool} PRIVATE SFT_WING_REMOTE_DLOPEN="$<TARGET_SONAME_FILE_NAME:sft_remote_shared>")
    add_dependencies(${tool} sft_remote_shared)
    set(opened TRUE)
  endif()
  if(opened)
    file(RELATIVE_PATH back /p/${CMAKE_INSTALL_BINDIR} /p/${CMAKE_INSTALL_LIBDIR})
    target_compile_definitions(${tool} PRIVATE SFT_WING_FOLDER="$ORIGIN/${back}")
    target_link_libraries(${tool} PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()

# The wings' sources once more for the unit tests and fuzz targets: sft_unit_NAME over sft_unit.
function(sft_wing_unit)
  sft_wing_sources(checkpoint sources)
  add_library(sft_unit_checkpoint STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(sft_unit_checkpoint PUBLIC sft_unit)
  if("import" IN_LIST SFT_WINGS)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/import/*/*.c)
    add_library(sft_unit_import STATIC EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(sft_unit_import PUBLIC sft_unit ZLIB::ZLIB)
  endif()
  if("remote" IN_LIST SFT_WINGS)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/remote/*.c)
    add_library(sft_unit_remote STATIC EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(sft_unit_remote PUBLIC sft_unit CURL::libcurl)
  endif()
endfunction()
