// Matrix products on an NVIDIA GPU, through cuBLAS loaded at run time.
#pragma once

#include "rocblas/product.h"

namespace standin {

rocblas_status run_on_cublas(const StreamTarget& stream, bool scalars_on_device, const Product& product);

}  // namespace standin
