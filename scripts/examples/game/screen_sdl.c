/* screen_sdl.c: a window by SDL 2. */
#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>

#include "screen.h"

struct screen {
  SDL_Window *window;
  SDL_Renderer *renderer;
  SDL_Texture *texture;
  int width, height; /* of the texture */
};

screen *screen_open(int width, int height) {
  screen *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  SDL_SetHint(SDL_HINT_NO_SIGNAL_HANDLERS, "1");
  if (SDL_Init(SDL_INIT_VIDEO) == 0)
    s->window =
        SDL_CreateWindow("tide", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED, width, height, SDL_WINDOW_RESIZABLE);
  if (s->window) s->renderer = SDL_CreateRenderer(s->window, -1, 0);
  if (s->renderer) return s;
  fprintf(stderr, "game: no window: %s; there is --headless\n", SDL_GetError());
  screen_close(s);
  return NULL;
}

void screen_close(screen *s) {
  if (!s) return;
  if (s->texture) SDL_DestroyTexture(s->texture);
  if (s->renderer) SDL_DestroyRenderer(s->renderer);
  if (s->window) SDL_DestroyWindow(s->window);
  SDL_Quit();
  free(s);
}

bool screen_mouse(screen *s, double *x, double *y) {
  int column, row, width, height;
  bool open = true;
  for (SDL_Event e; SDL_PollEvent(&e);) {
    bool escape = e.type == SDL_KEYDOWN && e.key.keysym.sym == SDLK_ESCAPE;
    if (e.type == SDL_QUIT || escape) open = false;
  }
  SDL_GetWindowSize(s->window, &width, &height);
  SDL_GetMouseState(&column, &row);
  *x = 2.0 * column / (width > 0 ? width : 1) - 1, *y = 2.0 * row / (height > 0 ? height : 1) - 1;
  return open;
}

void screen_show(screen *s, const uint8_t *pixels, int width, int height, const char *title) {
  if (title) SDL_SetWindowTitle(s->window, title);
  if (width != s->width || height != s->height) {
    if (s->texture) SDL_DestroyTexture(s->texture);
    s->texture = SDL_CreateTexture(s->renderer, SDL_PIXELFORMAT_RGBA32, SDL_TEXTUREACCESS_STREAMING, width, height);
    s->width = width, s->height = height;
  }
  SDL_UpdateTexture(s->texture, NULL, pixels, 4 * width);
  SDL_RenderCopy(s->renderer, s->texture, NULL, NULL);
  SDL_RenderPresent(s->renderer);
}
