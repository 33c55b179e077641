# SPDX-License-Identifier: Apache-2.0 OR MIT
# Extension libraries, each with its own dependencies. They use src/base and src/fs too: the static library takes them
# from the static core; the shared one has what it needs of them again (with local symbols), so that the shared core
# exports nothing for it.
#
# sft_extension(NAME DEPENDENCY...) makes sft_NAME_static and sft_NAME_shared (safetensors::NAME-static, -shared and
# safetensors::NAME) of src/NAME and its sub-rooms, compiled once as sft_NAME_objects. Exported: what
# src/libsafetensors-NAME.map lists. A library of more rooms or headers than src/NAME and sft/NAME.h sets
# SFT_EXTENSION_NAME_ROOMS and SFT_EXTENSION_NAME_HEADERS before.
add_library(sft_ground STATIC ${SFT_GROUND_OBJECTS})
set_target_properties(sft_ground PROPERTIES LINKER_LANGUAGE C)

function(sft_extension name)
  set(rooms ${SFT_EXTENSION_${name}_ROOMS})
  if(NOT rooms)
    set(rooms ${name})
  endif()
  set(sources)
  foreach(room ${rooms})
    file(GLOB room_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c
      ${PROJECT_SOURCE_DIR}/src/${room}/*/*.c)
    list(APPEND sources ${room_sources})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "${SFT_OTHER_SYSTEM}")
  sft_objects(sft_${name}_objects ${sources})
  target_link_libraries(sft_${name}_objects PRIVATE ${ARGN})

  add_library(sft_${name}_static STATIC $<TARGET_OBJECTS:sft_${name}_objects>)
  target_link_libraries(sft_${name}_static PUBLIC sft_static ${ARGN})
  set_target_properties(sft_${name}_static PROPERTIES LINKER_LANGUAGE C EXPORT_NAME ${name}-static
    OUTPUT_NAME safetensors-${name})

  add_library(sft_${name}_shared SHARED $<TARGET_OBJECTS:sft_${name}_objects>)
  target_link_libraries(sft_${name}_shared PRIVATE $<BUILD_INTERFACE:sft_flags> $<BUILD_INTERFACE:sft_ground> ${ARGN}
    Threads::Threads PUBLIC sft_shared)
  set_target_properties(sft_${name}_shared PROPERTIES LINKER_LANGUAGE C EXPORT_NAME ${name}-shared
    OUTPUT_NAME safetensors-${name} VERSION ${PROJECT_VERSION} SOVERSION ${SFT_SOVERSION})
  if(NOT WIN32 AND NOT APPLE)
    set(map ${PROJECT_SOURCE_DIR}/src/libsafetensors-${name}.map)
    target_link_options(sft_${name}_shared PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined
      -Wl,-Bsymbolic-functions)
    set_target_properties(sft_${name}_shared PROPERTIES LINK_DEPENDS ${map} BUILD_WITH_INSTALL_RPATH ON)
    # The core lies beside it; in a system's own folder the loader finds both by itself.
    if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
      set_target_properties(sft_${name}_shared PROPERTIES INSTALL_RPATH "\$ORIGIN")
    endif()
  endif()
  add_library(safetensors::${name}-static ALIAS sft_${name}_static)
  add_library(safetensors::${name}-shared ALIAS sft_${name}_shared)
  if(BUILD_SHARED_LIBS)
    add_library(safetensors::${name} ALIAS sft_${name}_shared)
  else()
    add_library(safetensors::${name} ALIAS sft_${name}_static)
  endif()
endfunction()

set(SFT_EXTENSIONS)
# Layouts and checkpoints of many files: nothing that a program which loads one model needs.
set(SFT_EXTENSION_checkpoint_ROOMS layout checkpoint)
set(SFT_EXTENSION_checkpoint_HEADERS layout mindspore checkpoint layout_set job names checkpoint_open checkpoint_group dedupe run)
sft_extension(checkpoint)
list(APPEND SFT_EXTENSIONS checkpoint)
# The driver's memory addresses are 64 bits wide here; what it opens at run time is dlopen's.
if(UNIX AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(SFT_EXTENSION_cuda_HEADERS cuda dlpack)
  sft_extension(cuda ${CMAKE_DL_LIBS})
  list(APPEND SFT_EXTENSIONS cuda)
endif()
# The tool has it, so that it is built for that, too.
if(SFT_BUILD_IMPORT OR SFT_BUILD_TOOL)
  # Dequantised values are rounded twice, as ggml's are: never fused; and the loops are worth vectorising.
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/import/gguf/dequant.c PROPERTIES COMPILE_OPTIONS
      "-ffp-contract=off;$<$<NOT:$<CONFIG:Debug>>:-O3>")
  endif()
  # What is compressed is read where the library for it is there; else it is refused by name.
  set(SFT_IMPORT_NEEDS)
  set(SFT_IMPORT_ARCHIVES)
  set(SFT_IMPORT_HAVE SFT_HAVE_ZLIB=0 SFT_HAVE_BZIP2=0 SFT_HAVE_LZMA=0)
  find_package(ZLIB QUIET)
  if(ZLIB_FOUND)
    list(APPEND SFT_IMPORT_NEEDS ZLIB::ZLIB)
    list(APPEND SFT_IMPORT_ARCHIVES z)
    list(TRANSFORM SFT_IMPORT_HAVE REPLACE "ZLIB=0" "ZLIB=1")
    set(SFT_PC_IMPORT_PRIVATE "zlib")
  elseif(NOT CMAKE_CROSSCOMPILING)
    message(WARNING "zlib not found: compressed members of other formats will be refused (scripts/bootstrap.sh installs it)")
  endif()
  if(NOT CMAKE_CROSSCOMPILING)
    find_package(BZip2 QUIET)
    find_package(LibLZMA QUIET)
  endif()
  if(BZIP2_FOUND)
    list(APPEND SFT_IMPORT_NEEDS BZip2::BZip2)
    list(APPEND SFT_IMPORT_ARCHIVES bz2)
    list(TRANSFORM SFT_IMPORT_HAVE REPLACE "BZIP2=0" "BZIP2=1")
    set(SFT_PC_IMPORT_LIBS "\nLibs.private: -lbz2")
  endif()
  if(LIBLZMA_FOUND)
    list(APPEND SFT_IMPORT_NEEDS LibLZMA::LibLZMA)
    list(APPEND SFT_IMPORT_ARCHIVES lzma)
    list(TRANSFORM SFT_IMPORT_HAVE REPLACE "LZMA=0" "LZMA=1")
    string(APPEND SFT_PC_IMPORT_PRIVATE " liblzma")
  endif()
  set(SFT_CONFIG_IMPORT_NEEDS ${SFT_IMPORT_NEEDS})
  list(TRANSFORM SFT_CONFIG_IMPORT_NEEDS REPLACE "::.*" "")
  sft_extension(import ${SFT_IMPORT_NEEDS})
  target_compile_definitions(sft_import_objects PRIVATE ${SFT_IMPORT_HAVE})
  list(APPEND SFT_EXTENSIONS import)
endif()

# libcurl is found when the first URL is met: nothing of it is needed to build this.
if(SFT_BUILD_REMOTE)
  if(WIN32)
    message(STATUS "remote library: not built for Windows")
  else()
    sft_extension(remote ${CMAKE_DL_LIBS})
    list(APPEND SFT_EXTENSIONS remote)
  endif()
endif()

# MPI is found or not: nothing but safetensors-mpi needs it. It speaks to libsafetensors-checkpoint by its
# public headers.
if(SFT_MPI AND NOT WIN32 AND NOT CMAKE_CROSSCOMPILING)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    sft_extension(mpi MPI::MPI_C)
    target_link_libraries(sft_mpi_static PUBLIC sft_checkpoint_static)
    target_link_libraries(sft_mpi_shared PUBLIC sft_checkpoint_shared MPI::MPI_C) # sft/mpi.h includes mpi.h
    list(APPEND SFT_EXTENSIONS mpi)
  else()
    message(STATUS "MPI library: not built, there is no MPI (Debian: libopenmpi-dev openmpi-bin)")
  endif()
endif()

# What the tool is made of besides the core. The static libraries of compression where they are there: loading shared
# ones would cost every start of the tool.
function(sft_tool_extensions tool)
  foreach(name import checkpoint remote)
    if(name IN_LIST SFT_EXTENSIONS)
      target_sources(${tool} INTERFACE $<TARGET_OBJECTS:sft_${name}_objects>)
    endif()
  endforeach()
  foreach(archive needed IN ZIP_LISTS SFT_IMPORT_ARCHIVES SFT_IMPORT_NEEDS)
    find_library(SFT_${archive}_ARCHIVE NAMES lib${archive}.a)
    mark_as_advanced(SFT_${archive}_ARCHIVE)
    if(SFT_STATIC_COMPRESSION AND SFT_${archive}_ARCHIVE)
      target_link_libraries(${tool} PUBLIC ${SFT_${archive}_ARCHIVE})
    else()
      target_link_libraries(${tool} PUBLIC ${needed})
    endif()
  endforeach()
  if("remote" IN_LIST SFT_EXTENSIONS)
    target_compile_definitions(${tool} PRIVATE SFT_TOOL_REMOTE)
    target_link_libraries(${tool} PUBLIC ${CMAKE_DL_LIBS})
  endif()
endfunction()
