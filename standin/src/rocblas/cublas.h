// Matrix products on an NVIDIA GPU, through cuBLAS loaded at run time.
#pragma once

#include "rocblas/product.h"

namespace standin {

/// `reads_c` is false if beta is known to be zero.
rocblas_status run_on_cublas(const StreamTarget& stream, bool scalars_on_device, bool reads_c, const Product& product);

}  // namespace standin
