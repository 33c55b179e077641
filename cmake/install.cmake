# SPDX-License-Identifier: Apache-2.0 OR MIT
# What `cmake --install` puts where. All paths follow CMAKE_INSTALL_*DIR, the prefix and DESTDIR; the
# pkg-config file and the CMake package find their prefix from where they lie, so the tree can be moved.

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "import.h" EXCLUDE PATTERN "remote.h" EXCLUDE
        PATTERN "layout.h" EXCLUDE PATTERN "mindspore.h" EXCLUDE PATTERN "checkpoint.h" EXCLUDE
        PATTERN "layout_set.h" EXCLUDE PATTERN "job.h" EXCLUDE PATTERN "names.h" EXCLUDE PATTERN "checkpoint_open.h" EXCLUDE
        PATTERN "checkpoint_group.h" EXCLUDE PATTERN "run.h" EXCLUDE PATTERN "mpi.h" EXCLUDE
        PATTERN "cuda.h" EXCLUDE PATTERN "dlpack.h" EXCLUDE)
set(SFT_KINDS) # package managers may want one of them
foreach(kind STATIC SHARED)
  string(TOLOWER ${kind} suffix)
  if(SFT_INSTALL_${kind})
    list(APPEND SFT_KINDS ${suffix})
  else()
    set(unused sft_${suffix})
    foreach(name ${SFT_EXTENSIONS})
      list(APPEND unused sft_${name}_${suffix})
    endforeach()
    set_target_properties(${unused} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endforeach()
if(NOT SFT_KINDS)
  message(FATAL_ERROR "SFT_INSTALL_STATIC and SFT_INSTALL_SHARED are both OFF: nothing to install (SFT_INSTALL=OFF has no install rules)")
endif()
list(TRANSFORM SFT_KINDS PREPEND sft_ OUTPUT_VARIABLE targets)
install(TARGETS ${targets} EXPORT safetensors-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Each extension library is a set of its own: find_package(safetensors) asks for its dependencies only with
# find_package(safetensors COMPONENTS import).
foreach(name ${SFT_EXTENSIONS})
  set(headers ${SFT_EXTENSION_${name}_HEADERS})
  if(NOT headers)
    set(headers ${name})
  endif()
  foreach(header ${headers})
    install(FILES ${PROJECT_SOURCE_DIR}/include/sft/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sft)
  endforeach()
  list(TRANSFORM SFT_KINDS PREPEND sft_${name}_ OUTPUT_VARIABLE targets)
  install(TARGETS ${targets} EXPORT safetensors-${name}-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT safetensors-${name}-targets NAMESPACE safetensors::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/safetensors)
endforeach()
if(TARGET safetensors)
  install(TARGETS safetensors RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # What `make site` made, if it did: the page of `view` without a model.
  install(DIRECTORY ${PROJECT_BINARY_DIR}/site/ DESTINATION ${CMAKE_INSTALL_DATADIR}/libsafetensors/site OPTIONAL)
endif()
if(TARGET safetensors-mpi)
  install(TARGETS safetensors-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/src/mpitool/safetensors-mpi.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# ---------------------------------------------------------------- CMake package
set(SFT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/safetensors)
install(EXPORT safetensors-targets NAMESPACE safetensors:: DESTINATION ${SFT_CMAKE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/safetensors-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/safetensors-config.cmake INSTALL_DESTINATION ${SFT_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/safetensors-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/safetensors-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/safetensors-config-version.cmake
        DESTINATION ${SFT_CMAKE_DIR})

# ---------------------------------------------------------------- pkg-config
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(SFT_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(SFT_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
elseif(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  # A system's own: nobody moves it, and pkg-config leaves out the folders that compilers search anyway.
  set(SFT_PC_PREFIX "/usr")
  set(SFT_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
else()
  # ${pcfiledir}/../.. for lib, one step more for lib/x86_64-linux-gnu
  set(SFT_PC_PREFIX "\${pcfiledir}/..")
  string(REGEX REPLACE "[^/]+" ".." steps "${CMAKE_INSTALL_LIBDIR}")
  set(SFT_PC_PREFIX "\${pcfiledir}/../${steps}")
  set(SFT_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(SFT_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(SFT_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/libsafetensors.pc.in
  ${CMAKE_CURRENT_BINARY_DIR}/libsafetensors.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libsafetensors.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(name ${SFT_EXTENSIONS})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/libsafetensors-${name}.pc.in
    ${CMAKE_CURRENT_BINARY_DIR}/libsafetensors-${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libsafetensors-${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# ---------------------------------------------------------------- texts
install(FILES LICENSE LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# ---------------------------------------------------------------- what the tool says about itself
# Man pages and completions come from the tool's own command tables: scripts/tool_docs.sh runs it.
if(TARGET safetensors AND NOT CMAKE_CROSSCOMPILING AND NOT WIN32 AND NOT SFT_SANITIZE)
  set(SFT_TOOL_DOCS ${CMAKE_CURRENT_BINARY_DIR}/tool-docs)
  file(GLOB sft_docs_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/tool_docs.sh)
  add_custom_command(OUTPUT ${SFT_TOOL_DOCS}/stamp
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/tool_docs.sh $<TARGET_FILE:safetensors> ${SFT_TOOL_DOCS}
    COMMAND ${CMAKE_COMMAND} -E touch ${SFT_TOOL_DOCS}/stamp
    DEPENDS safetensors ${PROJECT_SOURCE_DIR}/scripts/tool_docs.sh
    COMMENT "Man pages and completions" VERBATIM)
  add_custom_target(sft_tool_docs ALL DEPENDS ${SFT_TOOL_DOCS}/stamp)
  install(DIRECTORY ${SFT_TOOL_DOCS}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
  install(FILES ${SFT_TOOL_DOCS}/completion/safetensors.bash RENAME safetensors OPTIONAL
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${SFT_TOOL_DOCS}/completion/_safetensors OPTIONAL
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${SFT_TOOL_DOCS}/completion/safetensors.fish OPTIONAL
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
