#pragma once
#include <filesystem>
#include <string>

namespace standin {

// Compiled code by the text that it was compiled from. hipRTC's callers key what they keep by target, but on the host most
// targets have one and the same code.
class CodeStore {
 public:
  // `folder` may be empty, which is a store that holds nothing.
  explicit CodeStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  bool in_use() const { return !folder_.empty(); }
  // The code stored under this text; empty if there is none.
  std::string find(const std::string& text) const;
  // Stores code. It appears complete or not at all; a failure is no error, for the code can be compiled again.
  void keep(const std::string& text, const std::string& code) const;

 private:
  std::filesystem::path place_of(const std::string& text) const;
  std::filesystem::path folder_;
};

}  // namespace standin
