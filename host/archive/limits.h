#pragma once

#include <cstddef>

/// What a file may hold at most, so that what its reader takes follows from its size. What a save
/// writes is read by the same rules before the file takes its name, so no limit is met first by who
/// loads it.
///
/// Memory that a load takes, measured with files made for it: the file, once; 540 bytes for each
/// byte of the graphs; 180 for each of the manifest. docs/guides/archives.md promises a little less
/// well.

/// Time is linear, too. PyTorch's own passes take time in proportion to the square of the uses of
/// one value, and of the loops of a graph: hence limits on these.

namespace tracehost::archive {

inline constexpr std::size_t kFreelyUnpacked = std::size_t{16} << 10; ///< bytes of a packed record
inline constexpr std::size_t kUnpackedFactor = 32; ///< beyond it: for each byte that is stored
inline constexpr std::size_t kLargestName = 4096;  ///< of a record
inline constexpr int kDeepestBlocks = 400;         ///< of a graph, in each other
inline constexpr int kDeepestType = 6;             ///< `List[Optional[Tensor]]` is 3
inline constexpr std::size_t kMostUses = 32768;    ///< of one value of a graph
inline constexpr std::size_t kMostLoops = 4096;    ///< of one graph
inline constexpr std::size_t kLargestType = 256;   ///< types that a type is made of
inline constexpr int kDeepestLists = 4;            ///< of a value
inline constexpr int kDeepestJson = 200;
inline constexpr std::size_t kMostTerms = 4096; ///< of a condition on sizes
inline constexpr std::size_t kDeepestTerms = 32;

} // namespace tracehost::archive
