/* png.c: pictures to and from PNG files, sample by sample, through libpng.
 *
 * Samples are the numbers in the file. Three changes make them tensors: a palette becomes its colors, grey of 1, 2 or
 * 4 bits is scaled to 0 to 255, and tRNS becomes a channel of alpha. 16-bit samples are int32, as tide has no uint16.
 * Chunks that describe colors are skipped, but for gAMA and sRGB where the caller asks for gamma. libpng ends at an
 * error by a jump of its own, through its frames alone: each step runs under `guard`, and keeps its state in `picture`.
 * The file is opened here, so that the message has the system's reason.
 *
 * Invariant: a failed save leaves what was there before; a file that is broken gives no tensor. */
#include "array.h"

#include <errno.h>
#include <png.h>

enum { BEST = 1032, ROWS = 16 }; /* bytes that one of deflate's gives at most; rows between looks at interrupts */

typedef struct picture {
  png_structp png;
  png_infop info;
  FILE *file;
  int64_t size[3], packed; /* packed: bytes of the samples as they are in the file */
  int bits, passes;
  bool gamma, interrupted;
  char *samples; /* row by row, 16-bit ones in the machine's order */
  size_t row;    /* bytes from one row to the next */
  char reason[160];
} picture;

static tide_status fail_file(const char *what, const char *path, const char *reason) {
  return tide__fail(TIDE_FILE, "%s: '%s' failed, got: %s, expected a PNG file", what, path, reason);
}

static void on_error(png_structp png, png_const_charp text) {
  picture *p = png_get_error_ptr(png);
  snprintf(p->reason, sizeof p->reason, "%s", text);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

/* Runs a step; false: libpng has reported an error, and p->reason says what. */
static bool guard(picture *p, void (*step)(picture *)) {
  if (setjmp(png_jmpbuf(p->png))) return false;
  step(p);
  return true;
}

/* Reads or writes the rows, once for each pass of an interlaced file. */
static void each_row(picture *p, void (*step)(picture *, png_bytep row)) {
  for (int pass = 0; pass < p->passes; pass++)
    for (int64_t y = 0; y < p->size[0]; y++) {
      if (y % ROWS == 0 && tide__interrupt_asked()) {
        p->interrupted = true;
        return;
      }
      step(p, (png_bytep)p->samples + (size_t)y * p->row);
    }
}

/* ---- writing ---- */

static tide_status check_picture(const tide_tensor *image) {
  TIDE_TRY(tide__check(image, "save_png", "the picture"));
  if (image->dtype != TIDE_UINT8 && image->dtype != TIDE_INT32)
    return tide__fail(TIDE_DTYPE,
                      "save_png: wrong dtype, got %s, expected uint8, or int32 for 16 bits: (x * 255):byte() of values "
                      "from 0 to 1",
                      tide_dtype_name((tide_dtype)image->dtype));
  bool fits = (image->ndim == 2 || (image->ndim == 3 && image->size[2] <= 4)) && image->numel > 0 &&
              image->size[0] <= INT32_MAX && image->size[1] <= INT32_MAX / 8;
  if (!fits)
    return tide__fail(TIDE_SHAPE, "save_png: wrong shape, got %s, expected [h, w] or [h, w, 1 to 4]",
                      tide__shape_text(image->size, image->ndim));
  return TIDE_OK;
}

/* Makes n int32 samples 16-bit ones, at the begin of their memory. */
static void narrow(char *samples, int64_t n) {
  int32_t value;
  for (int64_t i = 0; i < n; i++) {
    memcpy(&value, samples + 4 * i, 4);
    uint16_t sample = (uint16_t)value;
    memcpy(samples + 2 * i, &sample, 2);
  }
}

/* And back, from the second half of the memory: no sample is overwritten before it is read. */
static void widen(char *samples, int64_t n) {
  uint16_t sample;
  for (int64_t i = 0; i < n; i++) {
    memcpy(&sample, samples + 2 * (n + i), 2);
    int32_t value = sample;
    memcpy(samples + 4 * i, &value, 4);
  }
}

/* 16-bit samples of int32 values, or an error before the file is touched. `out` is not the caller's memory. */
static tide_status pack_samples(tide_tensor **out, const tide_tensor *image) {
  const int32_t *value = (const int32_t *)tide__tensor_ptr(image);
  for (int64_t i = 0; i < image->numel; i++)
    if (value[i] < 0 || value[i] > UINT16_MAX)
      return tide__fail(TIDE_VALUE, "save_png: got the value %d, expected 0 to 65535, the samples of 16 bits",
                        (int)value[i]);
  TIDE_TRY(tide_clone(out, image));
  narrow(tide__tensor_ptr(*out), image->numel);
  return TIDE_OK;
}

static void write_row(picture *p, png_bytep row) { png_write_row(p->png, row); }

static void write_all(picture *p) {
  static const int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                               PNG_COLOR_TYPE_RGB_ALPHA};
  png_init_io(p->png, p->file);
  png_set_user_limits(p->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(p->png, p->info, (png_uint_32)p->size[1], (png_uint_32)p->size[0], p->bits, colors[p->size[2] - 1],
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(p->png, p->info);
  if (p->bits == 16) png_set_swap(p->png);
  each_row(p, write_row);
  if (!p->interrupted) png_write_end(p->png, NULL);
}

static tide_status write_picture(FILE *file, const char *path, const tide_tensor *image, int bits) {
  picture p = {.file = file, .passes = 1, .bits = bits, .samples = tide__tensor_ptr(image)};
  for (int d = 0; d < 3; d++) p.size[d] = d < image->ndim ? image->size[d] : 1;
  p.row = (size_t)(p.size[1] * p.size[2] * bits / 8);
  p.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning);
  p.info = p.png ? png_create_info_struct(p.png) : NULL;
  bool has_memory = p.info != NULL, good = has_memory && guard(&p, write_all);
  png_destroy_write_struct(&p.png, &p.info);
  if (p.interrupted) return tide__quota_interrupted("save_png");
  if (!has_memory) return tide__fail(TIDE_MEMORY, "save_png: no host memory");
  return good ? TIDE_OK : fail_file("save_png", path, p.reason);
}

tide_status tide_png_save(const char *path, const tide_tensor *image) {
  if (!path) return tide__fail(TIDE_ARGUMENT, "save_png: no path, got a null pointer, expected a file name");
  TIDE_TRY(check_picture(image));
  TIDE_OWNED tide_tensor *host = NULL, *packed = NULL;
  tide_file *file;
  TIDE_TRY(tide__elements_host(&host, image));
  bool wide = image->dtype == TIDE_INT32;
  if (wide) TIDE_TRY(pack_samples(&packed, host));
  TIDE_TRY(tide_file_new(&file, "save_png", path));
  tide_status status = write_picture(tide_file_stream(file), path, wide ? packed : host, wide ? 16 : 8);
  if (status == TIDE_OK) return tide_file_finish(file);
  tide_file_free(file);
  return status;
}

/* ---- reading ---- */

static void read_head(picture *p) {
  png_structp png = p->png;
  png_init_io(png, p->file);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  if (p->gamma) png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "gAMA\0sRGB", 2);
  png_read_info(png, p->info);
  p->size[0] = png_get_image_height(png, p->info), p->size[1] = png_get_image_width(png, p->info);
  p->packed = tide__size_mul((int64_t)png_get_rowbytes(png, p->info), p->size[0]);
}

/* Says what the samples shall be. libpng takes memory for rows here, and clears it. */
static void choose_samples(picture *p) {
  png_structp png = p->png;
  png_fixed_point gamma;
  int depth = png_get_bit_depth(png, p->info);
  if (!p->bits) p->bits = depth == 16 ? 16 : 8;
  png_set_expand(png);
  if (p->bits == 16) {
    png_set_expand_16(png);
    png_set_swap(png);
  } else if (depth == 16)
    png_set_scale_16(png);
  if (p->gamma && png_get_gAMA_fixed(png, p->info, &gamma)) png_set_gamma_fixed(png, PNG_DEFAULT_sRGB, gamma);
  p->passes = png_set_interlace_handling(png);
  png_read_update_info(png, p->info);
  p->size[2] = png_get_channels(png, p->info);
  p->row = png_get_rowbytes(png, p->info);
}

static void read_row(picture *p, png_bytep row) { png_read_row(p->png, row, NULL); }

static void read_rows(picture *p) {
  each_row(p, read_row);
  if (!p->interrupted) png_read_end(p->png, NULL);
}

/* Can a file of this many bytes hold the samples? -1: a pipe, of any length. */
static bool can_hold(const picture *p, int64_t bytes) { return bytes < 0 || p->packed / BEST <= bytes; }

static int64_t bytes_of(FILE *file) {
  int64_t bytes = fseeko(file, 0, SEEK_END) ? -1 : (int64_t)ftello(file);
  return bytes >= 0 && !fseeko(file, 0, SEEK_SET) ? bytes : -1;
}

/* Reads the rows into `image`. Narrow samples are read into the second half of its memory. */
static tide_status read_into(const tide_tensor *image, picture *p, const char *path) {
  char *samples = tide__tensor_ptr(image);
  bool wide = p->bits == 16;
  p->samples = wide ? samples + 2 * image->numel : samples;
  if (!guard(p, read_rows)) return fail_file("load_png", path, p->reason);
  if (p->interrupted) return tide__quota_interrupted("load_png");
  if (wide) widen(samples, image->numel);
  return TIDE_OK;
}

static tide_status read_picture(tide_tensor **out, picture *p, const char *path) {
  int64_t bytes = bytes_of(p->file);
  tide_tensor *image;
  if (!guard(p, read_head)) return fail_file("load_png", path, p->reason);
  if (!can_hold(p, bytes)) return fail_file("load_png", path, "its size is more than its bytes can hold");
  if (!guard(p, choose_samples)) return fail_file("load_png", path, p->reason);
  const tide_options o = {p->bits == 16 ? TIDE_INT32 : TIDE_UINT8, TIDE_CPU, false};
  TIDE_TRY(tide_empty(&image, p->size, 3, &o));
  return tide__hand_out(out, image, read_into(image, p, path));
}

tide_status tide_png_load_as(tide_tensor **out, const char *path, int bits, bool gamma) {
  if (!path) return tide__fail(TIDE_ARGUMENT, "load_png: no path, got a null pointer, expected a file name");
  if (!out) return tide__fail(TIDE_ARGUMENT, "load_png: no place for the result, got a null pointer");
  if (bits && bits != 8 && bits != 16)
    return tide__fail(TIDE_VALUE, "load_png: bits: got %d, expected 8, 16 or 0, as many as the file has", bits);
  picture p = {.bits = bits, .gamma = gamma, .file = fopen(path, "rb")};
  if (!p.file) return fail_file("load_png", path, strerror(errno));
  p.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning);
  p.info = p.png ? png_create_info_struct(p.png) : NULL;
  tide_status status = p.info ? read_picture(out, &p, path) : tide__fail(TIDE_MEMORY, "load_png: no host memory");
  png_destroy_read_struct(&p.png, &p.info, NULL);
  fclose(p.file);
  return status;
}

tide_status tide_png_load(tide_tensor **out, const char *path) { return tide_png_load_as(out, path, 0, false); }
