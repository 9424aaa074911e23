// Bytes that mark memory, so that reads and writes of what is not a kernel's own are noticed.
#pragma once

#include <cstddef>

namespace standin {

constexpr size_t page = 4096;
/// Of memory that nobody has written: NaN in every float format.
constexpr unsigned char unwritten = 0xff;
/// Beside an allocation.
constexpr unsigned char red_zone = 0xa5;

}  // namespace standin
