/* png.c: 8-bit pictures to and from PNG files, through libpng's simplified interface.
 *
 * That interface reports errors by return value and text, so nothing jumps through our frames. The file is opened here,
 * so that a path that cannot be opened is told with the system's reason. A picture is converted to 8 bits per channel
 * while reading; grey, RGB and RGBA keep their channels, grey with alpha becomes RGBA.
 *
 * Invariant: a failed save leaves what was there before. */
#include "base/file.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>

static tide_status fail_file(const char *what, const char *path, const char *reason) {
  return tide__fail(TIDE_FILE, "%s: '%s' failed, got: %s, expected a PNG file", what, path, reason);
}

/* The PNG format for a picture of this shape; -1 if it is none. */
static int picture_format(const tide_tensor *image) {
  int64_t channels = image->ndim == 3 ? image->size[2] : 1;
  if (image->ndim != 2 && image->ndim != 3) return -1;
  return channels == 1   ? (int)PNG_FORMAT_GRAY
         : channels == 3 ? (int)PNG_FORMAT_RGB
         : channels == 4 ? (int)PNG_FORMAT_RGBA
                         : -1;
}

static tide_status check_picture(const tide_tensor *image) {
  TIDE_TRY(tide__check(image, "save_png", "the picture"));
  if (image->dtype != TIDE_UINT8)
    return tide__fail(TIDE_DTYPE,
                      "save_png: wrong dtype, got %s, expected uint8: (x * 255):byte() of values from 0 to 1",
                      tide_dtype_name((tide_dtype)image->dtype));
  bool fits = picture_format(image) >= 0 && image->numel > 0 && image->size[0] <= 0x7fffffff &&
              image->size[1] <= 0x7fffffff / 4;
  if (!fits)
    return tide__fail(TIDE_SHAPE, "save_png: wrong shape, got %s, expected [h, w], [h, w, 1], [h, w, 3] or [h, w, 4]",
                      tide__shape_text(image->size, image->ndim));
  return TIDE_OK;
}

/* Writes the pixels to the open file; the reason of a failure goes to `reason`. */
static bool write_picture(FILE *file, const tide_tensor *image, char *reason, size_t size) {
  png_image png;
  memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  png.height = (png_uint_32)image->size[0];
  png.width = (png_uint_32)image->size[1];
  png.format = (png_uint_32)picture_format(image);
  bool written = png_image_write_to_stdio(&png, file, 0, tide__tensor_ptr(image), 0, NULL) != 0;
  if (!written) snprintf(reason, size, "%s", png.message);
  png_image_free(&png);
  return written;
}

/* The pixels in row-major order on the host; a picture on a device is waited for and copied. */
static tide_status host_pixels(tide_tensor **out, const tide_tensor *image) {
  if (image->storage->device < 0) return tide__as_contiguous(out, image, TIDE_UINT8);
  tide_options host = {TIDE_UINT8, TIDE_CPU, false};
  tide_tensor *copy;
  TIDE_TRY(tide_to(&copy, image, &host, false, false));
  tide_status status = tide__as_contiguous(out, copy, TIDE_UINT8);
  tide_tensor_release(copy);
  return status;
}

tide_status tide_png_save(const char *path, const tide_tensor *image) {
  if (!path) return tide__fail(TIDE_ARGUMENT, "save_png: no path, got a null pointer, expected a file name");
  TIDE_TRY(check_picture(image));
  tide_tensor *packed;
  tide_file *file;
  char reason[160];
  TIDE_TRY(host_pixels(&packed, image));
  tide_status status = tide_file_new(&file, "save_png", path);
  if (status == TIDE_OK) {
    if (write_picture(tide_file_stream(file), packed, reason, sizeof reason))
      status = tide_file_finish(file);
    else {
      tide_file_free(file);
      status = fail_file("save_png", path, reason);
    }
  }
  tide_tensor_release(packed);
  return status;
}

/* The 8-bit format that keeps the file's channels. */
static png_uint_32 reading_format(png_uint_32 format) {
  bool color = format & PNG_FORMAT_FLAG_COLOR, alpha = format & PNG_FORMAT_FLAG_ALPHA;
  return alpha ? PNG_FORMAT_RGBA : color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
}

/* Reads the pixels after the header has been read. */
static tide_status read_picture(tide_tensor **out, png_image *png, const char *path) {
  png->format = reading_format(png->format);
  int64_t size[3] = {png->height, png->width, PNG_IMAGE_SAMPLE_CHANNELS(png->format)};
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  tide_tensor *image;
  if (size[1] * size[2] > INT32_MAX) return fail_file("load_png", path, "the rows are too long");
  TIDE_TRY(tide_empty(&image, size, 3, &o));
  if (!png_image_finish_read(png, NULL, tide__tensor_ptr(image), 0, NULL)) {
    tide_tensor_release(image);
    return fail_file("load_png", path, png->message);
  }
  *out = image;
  return TIDE_OK;
}

tide_status tide_png_load(tide_tensor **out, const char *path) {
  if (!path) return tide__fail(TIDE_ARGUMENT, "load_png: no path, got a null pointer, expected a file name");
  FILE *file = fopen(path, "rb");
  if (!file) return fail_file("load_png", path, strerror(errno));
  png_image png;
  memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  tide_status status = png_image_begin_read_from_stdio(&png, file) ? read_picture(out, &png, path)
                                                                   : fail_file("load_png", path, png.message);
  png_image_free(&png);
  fclose(file);
  return status;
}
