// What a path names, after links are followed.

#ifndef SHARDFEED_CONVERT_INPUT_PATH_KIND_H_
#define SHARDFEED_CONVERT_INPUT_PATH_KIND_H_

#include <string>

namespace shardfeed {

// All are false if the path does not exist or cannot be looked up.
bool IsFile(const std::string& path);
bool IsFolder(const std::string& path);
bool IsPipe(const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_PATH_KIND_H_
