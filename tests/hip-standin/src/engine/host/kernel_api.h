// The functions that a loaded kernel module is given.
#pragma once

#include "ops_host_abi.h"

namespace standin {

const OpsHostApi* kernel_api(uint32_t wave_size);

}  // namespace standin
