# Toolchain for 64-bit Arm from another Linux machine: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DANYCEND_AARCH64=FOLDER.
# FOLDER is what `python tools/dev/aarch64.py layout FOLDER` makes: sysroot/ (Debian's packages: libc, Python 3.11) and site/ (the wheels of
# torch and UCX for that processor). The Python that generates code runs here, on the machine that builds; tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(ANYCEND_AARCH64 "" CACHE PATH "Folder with sysroot and site for aarch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANYCEND_AARCH64)
set(sysroot "${ANYCEND_AARCH64}/sysroot")

find_program(CMAKE_C_COMPILER NAMES aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc-12 REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES aarch64-linux-gnu-g++ aarch64-linux-gnu-g++-12 REQUIRED)
find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${QEMU_AARCH64};-L;${sysroot}")
endif()

# Headers of that processor's Python; the interpreter is the one here.
set(Python3_INCLUDE_DIR "${sysroot}/usr/include/python3.11" CACHE PATH "")
set(ANYCEND_SOABI "cpython-311-aarch64-linux-gnu" CACHE STRING "")
set(ANYCEND_TEST_LIMIT 1800 CACHE STRING "")
set(TORCH_DIR "${ANYCEND_AARCH64}/site/torch" CACHE PATH "")
