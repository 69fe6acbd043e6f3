// The gradients of the weights and biases of a convolution of images without padding.
//
// Images are read without copying, as in conv.cc. The bits do not depend on the number of threads.
#include <algorithm>
#include <vector>

#include "call.h"
#include "images.h"
#include "pool.h"
#include "winograd.h"

namespace smrl {
namespace {

constexpr int64_t BLOCK = 96;  // pixels that are summed in registers at a time
enum Slot { SHARED, PANEL };

// Add to the sums of a tile in memory, or overwrite them if this is the first block.
__attribute__((noinline)) void add(float* sums, const float* const* corners, const int64_t* offsets, const float* right,
                                   int64_t count, bool is_first) {
  const float* left[ROWS];
  std::copy_n(corners, ROWS, left);
  Vec sum[ROWS][2];
#pragma GCC unroll 32
  for (int i = 0; i < 2 * ROWS; i++) sum[i / 2][i % 2] = is_first ? Vec{} : load(sums + i * WIDTH);
  multiply(sum, left, [&](int64_t k) { return offsets[k]; }, right, count);
#pragma GCC unroll 32
  for (int i = 0; i < 2 * ROWS; i++) store(sums + i * WIDTH, sum[i / 2][i % 2]);
}

}  // namespace

// Arguments: x (batch, height, width, channels) and ∂y (batch, rows, columns, filters).
// Results: ∂W (kernel, kernel, channels, filters) and ∂b.
//
// A task sums over a group of images. Then the sums of the groups are added in a fixed order.
KERNEL(smrl_conv_weight_gradient) {
  call.require_counts(2, 2);
  const Array<float> x = call.argument(0, {ANY, ANY, ANY, ANY});
  const int64_t stride = call.integer("stride"), images = x.dims[0];
  const int64_t height = x.dims[1], width = x.dims[2], channels = x.dims[3];
  const int64_t kernel = call.result(0, {ANY, ANY, ANY, ANY}).dims[0];
  const Array<float> result = call.result(0, {kernel, kernel, channels, ANY});
  const int64_t rows = side_after(height, kernel, stride), columns = side_after(width, kernel, stride);
  const int64_t filters = result.dims[3];
  const Array<float> gradient = call.argument(1, {images, rows, columns, filters}), bias = call.result(1, {filters});
  if (winograd::is_faster(kernel, stride, Images(x), Images(gradient)))
    return winograd::weight_gradient(Images(x), Images(gradient), result.data, bias.data);
  const int64_t entries = kernel * kernel * channels, tiles = divide_up(entries, ROWS), pixels = rows * columns;
  const int64_t panels = divide_up(filters, COLUMNS), size = (tiles * ROWS + 1) * COLUMNS;
  int64_t groups = 1;  // not too many, because adding their sums takes time
  while (groups < 16 && 2 * groups <= images && 384 * 2 * groups <= images * pixels) groups *= 2;
  float* partial = scratch(SHARED, groups * panels * size);  // sums for the entries of the kernel and for the bias
  std::vector<const float*> corners(tiles * ROWS);           // the inputs that these entries see at the first pixel
  for (int64_t i = 0, run = kernel * channels; i < tiles * ROWS; i++) {
    const int64_t entry = std::min(i, entries - 1);  // rows beyond the last entry repeat it
    corners[i] = x.data + entry / run * width * channels + entry % run;
  }
  parallel(groups, [&](int64_t group) {
    const int64_t begin = images * group / groups * pixels, end = images * (group + 1) / groups * pixels;
    float *sums = partial + group * panels * size, *right = scratch(PANEL, panels * BLOCK * COLUMNS);
    for (int64_t i = 1; i <= panels; i++) std::fill_n(sums + i * size - COLUMNS, COLUMNS, 0.0f);
    int64_t offset = begin / pixels * height * width * channels, column = 0, row = 0;
    for (int64_t start = begin; start < end; start += BLOCK) {
      const int64_t count = std::min(BLOCK, end - start);
      int64_t offsets[BLOCK];
      for (int64_t i = 0; i < count; i++) {
        offsets[i] = offset;
        offset += stride * channels;
        if (++column == columns) {
          column = 0;
          offset += (width - columns) * stride * channels;
          if (++row == rows) row = 0, offset += (height - rows * stride) * width * channels;
        }
      }
      const float* from = gradient.data + start * filters;
      for (int64_t i = 0; i < panels; i++) {
        const int64_t first = i * COLUMNS, span = std::min<int64_t>(COLUMNS, filters - first);
        pack(right + i * BLOCK * COLUMNS, sums + (i + 1) * size - COLUMNS, from + first, count, filters, span);
      }
      const Prefetch ahead[] = {
          {from + count * filters, count * filters},
          {x.data + offset + (kernel - 1) * width * channels, count * stride * stride * channels}};
      for (int64_t i = 0; i < panels * tiles; i++) {
        const int64_t panel = i / tiles, tile = i % tiles;
        for (const Prefetch& next : ahead) next.prefetch(i, panels * tiles);
        add(sums + panel * size + tile * ROWS * COLUMNS, &corners[tile * ROWS], offsets,
            right + panel * BLOCK * COLUMNS, count, start == begin);
      }
    }
  });
  parallel(panels, [&](int64_t panel) {
    const int64_t first = panel * COLUMNS, span = std::min<int64_t>(COLUMNS, filters - first);
    for (int64_t entry = 0; entry <= entries; entry++) {
      const float* from = partial + panel * size + (entry < entries ? entry : tiles * ROWS) * COLUMNS;
      Vec sum[2] = {};
      for (int64_t group = 0; group < groups; group++, from += panels * size) {
        for (int c = 0; c < 2; c++) sum[c] += load(from + c * WIDTH);
      }
      put(sum, (entry < entries ? result.data + entry * filters : bias.data) + first, span);
    }
  });
}

}  // namespace smrl
