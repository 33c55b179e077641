# SPDX-License-Identifier: Apache-2.0 OR MIT
# The digest is filled in by packaging/recipes.sh.
vcpkg_download_distfile(archive
  URLS "@URL@/libsafetensors-${VERSION}.tar.gz"
  FILENAME "libsafetensors-${VERSION}.tar.gz"
  SHA512 @SHA512@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")

string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "static" static)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES
  import SFT_BUILD_IMPORT
  remote SFT_BUILD_REMOTE
  tool SFT_BUILD_TOOL)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DSFT_MPI=OFF -DSFT_STATIC_COMPRESSION=OFF
    -DSFT_INSTALL_STATIC=${static} -DSFT_INSTALL_SHARED=${shared})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME safetensors CONFIG_PATH lib/cmake/safetensors)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES safetensors AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/man")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/LICENSE-APACHE" "${SOURCE_PATH}/LICENSE-MIT")
