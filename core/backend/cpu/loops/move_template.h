/* move_template.h: how elements of one size become a tile and come from it; layout.c includes it for each. Before: T, a
 * type of that size; NAME(f), the name of a function for it. Rows are outside, unless they lie closer to each other
 * than the columns. */

static void NAME(gather)(T *restrict out, const T *base, const int64_t *offset, int64_t rows, int64_t cols,
                         int64_t stride, bool across) {
  if (across) {
    for (int64_t c = 0; c < cols; c++)
      for (int64_t r = 0; r < rows; r++) out[r * cols + c] = base[offset[r] + c * stride];
    return;
  }
  for (int64_t r = 0; stride == 0 && cols == 4 && r < rows; r++) /* a number that is known makes it one store */
    for (int64_t c = 0; c < 4; c++) out[4 * r + c] = base[offset[r]];
  if (stride == 0 && cols == 4) return;
  for (int64_t r = 0; r < rows; r++, out += cols) {
    const T *row = base + offset[r];
    if (stride == 1)
      for (int64_t c = 0; c < cols; c++) out[c] = row[c];
    else if (stride == 0)
      for (int64_t c = 0; c < cols; c++) out[c] = *row;
    else if (stride == -1)
      for (int64_t c = 0; c < cols; c++) out[c] = row[-c];
    else
      for (int64_t c = 0; c < cols; c++) out[c] = row[c * stride];
  }
}

static void NAME(scatter)(T *base, const T *restrict in, const int64_t *offset, int64_t rows, int64_t cols,
                          int64_t stride, bool across) {
  if (across) {
    for (int64_t c = 0; c < cols; c++)
      for (int64_t r = 0; r < rows; r++) base[offset[r] + c * stride] = in[r * cols + c];
    return;
  }
  for (int64_t r = 0; r < rows; r++, in += cols) {
    T *row = base + offset[r];
    if (stride == 1)
      for (int64_t c = 0; c < cols; c++) row[c] = in[c];
    else
      for (int64_t c = 0; c < cols; c++) row[c * stride] = in[c];
  }
}

#undef T
#undef NAME
