#include "rocblas/cublas.h"

namespace standin {

rocblas_status run_on_cublas(const StreamTarget&, bool, const Product&) { return rocblas_status_not_implemented; }

}  // namespace standin
