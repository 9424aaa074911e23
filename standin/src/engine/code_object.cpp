#include "engine/code_object.h"

#include <cstdio>
#include <cstring>

namespace standin {
namespace {

constexpr char magic[8] = {'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'};

struct Header {
  char magic[8];
  uint32_t engine;
  uint32_t wave_size;
  char gfx[64];
  uint64_t payload_bytes;
  uint64_t payload_sum;
  uint64_t header_sum;  // of everything before it, because a damaged size must not be followed
};

uint64_t fnv1a(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string pack(const CodeObject& object) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.engine = uint32_t(object.engine);
  header.wave_size = object.wave_size;
  std::snprintf(header.gfx, sizeof header.gfx, "%s", object.gfx.c_str());
  header.payload_bytes = object.payload.size();
  header.payload_sum = fnv1a(object.payload.data(), object.payload.size());
  header.header_sum = fnv1a(&header, offsetof(Header, header_sum));
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + object.payload;
}

hipError_t unpack(const void* image, size_t image_bytes, EngineKind engine, CodeObject* out) {
  const char* bytes = static_cast<const char*>(image);
  if (image_bytes < sizeof(Header)) return hipErrorInvalidImage;
  if (std::memcmp(bytes, "\177ELF", 4) == 0) return hipErrorNoBinaryForGpu;
  if (std::memcmp(bytes, magic, sizeof magic) != 0) return hipErrorInvalidImage;
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  if (header.header_sum != fnv1a(&header, offsetof(Header, header_sum))) return hipErrorInvalidImage;
  if (header.payload_bytes > image_bytes - sizeof header) return hipErrorInvalidImage;
  if (header.payload_sum != fnv1a(bytes + sizeof header, header.payload_bytes)) return hipErrorInvalidImage;
  if (header.engine != uint32_t(engine)) return hipErrorNoBinaryForGpu;
  out->engine = engine;
  out->gfx = header.gfx;
  out->wave_size = header.wave_size;
  out->payload.assign(bytes + sizeof header, header.payload_bytes);
  return hipSuccess;
}

}  // namespace standin
