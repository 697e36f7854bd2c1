/* scene.h: what the two renderers share: the script that computes what they draw, and the picture that they leave. */
#ifndef SCENE_H
#define SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "tide/tide.h"

enum { ROWS = 160, COLUMNS = 240, TEXTURE = 256, WIDTH = 640, HEIGHT = 400, FRAMES = 30 };
enum { INDICES = (ROWS - 1) * (COLUMNS - 1) * 6, SKIPPED = 77 /* the exit status that ctest takes for skipped */ };

/* Says what is missing and ends with SKIPPED. */
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says what has failed and ends with 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    if ((expr) != TIDE_OK) fail("%s: %s", #expr, tide_error_get()->message);                                           \
  } while (0)

/* Loads the script, which keeps the two tensors. */
void scene_open(const char *script, tide_tensor *vertices, tide_tensor *texture);
/* Queues what writes them for frame i; on the cpu it is done. */
void scene_update(int i);
void scene_close(void);
/* Triangles of the grid, the far rows first. */
void scene_indices(uint32_t *out);
/* Writes RGBA rows as a PNG and says what is to be seen: fails where that is next to nothing. */
void scene_save(const char *path, void *pixels, double seconds);

#endif
