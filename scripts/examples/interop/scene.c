/* scene.c: see scene.h. */
#include "scene.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lualib.h>

#include "tide/tide_lua.h"

static lua_State *L;

void skip(const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("skipped: ");
  vprintf(format, list);
  printf("\n");
  va_end(list);
  exit(SKIPPED);
}

void fail(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
  exit(1);
}

static void call(int arguments, int results) {
  if (lua_pcall(L, arguments, results, 0) != LUA_OK) fail("script: %s", luaL_tolstring(L, -1, NULL));
}

void scene_open(const char *script, tide_tensor *vertices, tide_tensor *texture) {
  L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, getenv("TIDE_CPATH") ? getenv("TIDE_CPATH") : HOST_LUA_CPATH);
  lua_setfield(L, -2, "cpath");
  lua_settop(L, 0);
  if (luaL_dostring(L, "require 'tide'") != LUA_OK) fail("require: %s", lua_tostring(L, -1));
  if (luaL_loadfile(L, script) != LUA_OK) fail("%s", lua_tostring(L, -1));
  tide_lua_get(L)->push_tensor(L, vertices);
  tide_lua_get(L)->push_tensor(L, texture);
  call(2, 1);
  tide_current_bind(NULL);
}

void scene_update(int i) {
  lua_pushvalue(L, 1);
  lua_pushnumber(L, i / 30.0);
  call(1, 0);
  tide_current_bind(NULL);
}

void scene_close(void) {
  lua_close(L);
  L = NULL;
}

void scene_indices(uint32_t *out) {
  for (uint32_t row = 0; row + 1 < ROWS; row++)
    for (uint32_t column = 0; column + 1 < COLUMNS; column++) {
      uint32_t a = row * COLUMNS + column, c = a + COLUMNS;
      const uint32_t two[] = {a, c, a + 1, a + 1, c, c + 1};
      for (int k = 0; k < 6; k++) *out++ = two[k];
    }
}

void scene_save(const char *path, void *pixels, double seconds) {
  const int64_t size[] = {HEIGHT, WIDTH, 4};
  tide_options bytes = tide_options_defaults();
  bytes.dtype = TIDE_UINT8, bytes.device = TIDE_CPU;
  const uint8_t *p = pixels;
  tide_tensor *image;
  int drawn = 0;
  long red = 0;
  for (int i = 0; i < WIDTH * HEIGHT; i++) {
    if (p[4 * i] > 40 || p[4 * i + 1] > 40) drawn++, red += p[4 * i];
  }
  OK(tide_from_ptr(&image, pixels, size, NULL, 3, &bytes, NULL, NULL));
  OK(tide_png_save(path, image));
  tide_tensor_release(image);
  printf("%s: %d of %d pixels drawn, mean red %ld, %d frames in %.1f ms\n", path, drawn, WIDTH * HEIGHT,
         drawn ? red / drawn : 0, FRAMES, 1e3 * seconds);
  if (drawn < WIDTH * HEIGHT / 4) fail("the picture is next to empty");
}
