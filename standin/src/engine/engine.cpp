#include "engine/engine.h"

namespace standin {

Engine& engine() {
  static Engine* const instance =
      (config().engine == EngineKind::Cuda ? make_cuda_engine() : make_host_engine()).release();
  return *instance;
}

}  // namespace standin
