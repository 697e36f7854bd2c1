/* screen.h: the window of the game: screen_sdl.c, or screen_none.c where SDL is not there. */
#ifndef SCREEN_H
#define SCREEN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct screen screen;

/* NULL: there is none, and why has been printed. */
screen *screen_open(int width, int height);
void screen_close(screen *s);
/* Where the mouse is, from -1 to 1 in both directions. false: the window has been closed. */
bool screen_mouse(screen *s, double *x, double *y);
/* Shows a picture, as large as the window is: red, green, blue and alpha of each pixel. title NULL: as it was. */
void screen_show(screen *s, const uint8_t *pixels, int width, int height, const char *title);

#endif
