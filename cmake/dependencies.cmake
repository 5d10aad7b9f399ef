# Debian packages, all of them; `make setup` installs them by name.
find_package(Threads REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(spdlog REQUIRED)
# Its fmt compiled in: the Python module must not need a shared library that the machine may not have.
set_target_properties(spdlog::spdlog_header_only PROPERTIES INTERFACE_LINK_LIBRARIES "fmt::fmt-header-only;Threads::Threads")
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# The client lives beside other copies of common libraries in one process: it takes OpenSSL as a static archive (design section 5).
set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL REQUIRED)

find_path(ASIO_INCLUDE asio.hpp REQUIRED)
add_library(asio INTERFACE)
target_include_directories(asio SYSTEM INTERFACE ${ASIO_INCLUDE})
target_compile_definitions(asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(asio INTERFACE Threads::Threads)
if(PENSTOCK_SANITIZE MATCHES thread)
  # ThreadSanitizer does not know fences; Asio's locks order the same things.
  target_compile_definitions(asio INTERFACE ASIO_DISABLE_FENCED_BLOCK)
endif()

find_path(ISAL_INCLUDE isa-l/igzip_lib.h REQUIRED)
find_library(ISAL_LIBRARY NAMES libisal.a isal REQUIRED)
add_library(ISAL::isal UNKNOWN IMPORTED)
set_target_properties(ISAL::isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE})

# Static archives too: TensorFlow shows a zstd of its own to the whole process.
foreach(codec lz4 zstd)
  find_path(${codec}_INCLUDE ${codec}.h REQUIRED)
  find_library(${codec}_ARCHIVE lib${codec}.a REQUIRED)
  add_library(${codec}_static STATIC IMPORTED)
  set_target_properties(${codec}_static PROPERTIES IMPORTED_LOCATION ${${codec}_ARCHIVE} INTERFACE_INCLUDE_DIRECTORIES ${${codec}_INCLUDE})
endforeach()

if(PENSTOCK_FUZZ)
  find_package(ZLIB REQUIRED)  # what our decoder is compared with
endif()

if(PENSTOCK_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
endif()
