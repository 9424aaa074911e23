// The functions that the host engine provides to a loaded kernel module.
#pragma once

#include "ops_host_abi.h"

namespace standin {

const OpsHostApi* kernel_api(uint32_t wave_size);

}  // namespace standin
