/* screen_none.c: no window: the game writes pictures. */
#include <stdio.h>

#include "screen.h"

screen *screen_open(int width, int height) {
  (void)width, (void)height;
  fprintf(stderr, "game: built without SDL 2 (libsdl2-dev): there is --headless\n");
  return NULL;
}
void screen_close(screen *s) { (void)s; }
bool screen_mouse(screen *s, double *x, double *y) { return (void)s, (void)x, (void)y, false; }
void screen_show(screen *s, const uint8_t *pixels, int width, int height, const char *title) {
  (void)s, (void)pixels, (void)width, (void)height, (void)title;
}
