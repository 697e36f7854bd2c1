/* gif.c: tide.save_gif: animations, by the GIF89a specification (CompuServe, 1990).
 *
 * data/gif.lua turns frames into bytes: [n, h, w] indexes of a palette, or [n, h, w, 3] colors. Colors of at most 256
 * kinds are written exactly. More are reduced by median cut (P. Heckbert, "Color Image Quantization for Frame Buffer
 * Display", 1982) on a histogram of 5 bits a channel, with one palette for all frames, so that still parts do not
 * flicker. Of each frame but the first only the rectangle that has changed is written. The bytes are compressed by LZW
 * (T. Welch, "A Technique for High-Performance Data Compression", 1984).
 *
 * Invariant: the handles of the tensor and of the file are on the stack while hooks may run. */

#include <math.h>
#include "file.h"
#include "tensor/tensor.h"

enum { COLORS = 256, CELLS = 1 << 15, SLOTS = 1 << 13, MOST_CODES = 1 << 12, BLOCK = 255, KNOWN = 1 << 10 };

typedef struct gif {
  lua_State *L;
  FILE *file;
  const char *name;
  int64_t frames, h, w;
  int channels, scale;
  const uint8_t *pixels;

  int colors;               /* of the palette */
  uint32_t palette[COLORS]; /* 0xRRGGBB */
  bool is_exact;            /* colors are found in `known`, else by their cell */
  uint32_t known[KNOWN];    /* color + 1 */
  uint8_t known_at[KNOWN], cell_at[CELLS];

  uint8_t block[BLOCK]; /* of compressed bytes */
  int used, bits;       /* of the block, of `pending` */
  uint32_t pending;
  uint32_t slot[SLOTS]; /* a prefix and a byte, + 1 */
  uint16_t code_at[SLOTS];
} gif;

typedef struct cell {
  uint64_t count, sum[3];
} cell;

/* {==== The palette */

static uint32_t color_of(const uint8_t *p) { return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]; }
static int cell_of(uint32_t c) { return (int)((c >> 19 & 31) << 10 | (c >> 11 & 31) << 5 | (c >> 3 & 31)); }

/* Where the color is, or the free place for it. */
static int place_of(const gif *g, uint32_t color) {
  uint32_t at = color * 2654435761u >> 22;
  while (g->known[at] && g->known[at] != color + 1) at = (at + 1) % KNOWN;
  return (int)at;
}

/* Takes every color into the palette; false: there are more than 256. */
static bool find_exact(gif *g) {
  int64_t n = g->frames * g->h * g->w;
  uint32_t last = UINT32_MAX;
  for (int64_t i = 0; i < n; i++) {
    if (i % g->w == 0) ltide_poll(g->L, i / g->w);
    uint32_t color = color_of(g->pixels + 3 * i);
    if (color == last) continue;
    int at = place_of(g, last = color);
    if (g->known[at]) continue;
    if (g->colors == COLORS) return false;
    g->known[at] = color + 1, g->known_at[at] = (uint8_t)g->colors;
    g->palette[g->colors++] = color;
  }
  return true;
}

/* A box of cells: [low, high] of each channel. */
typedef struct box {
  int low[3], high[3];
  uint64_t count;
} box;

static int cell_at(int r, int g, int b) { return r << 10 | g << 5 | b; }

/* Narrows the box to the cells that have colors, and counts them. */
static void shrink(box *b, const cell *cells) {
  box n = {{31, 31, 31}, {0, 0, 0}, 0};
  for (int x = b->low[0]; x <= b->high[0]; x++)
    for (int y = b->low[1]; y <= b->high[1]; y++)
      for (int z = b->low[2]; z <= b->high[2]; z++) {
        const int at[3] = {x, y, z};
        uint64_t count = cells[cell_at(x, y, z)].count;
        for (int d = 0; d < 3 && count; d++) {
          if (at[d] < n.low[d]) n.low[d] = at[d];
          if (at[d] > n.high[d]) n.high[d] = at[d];
        }
        n.count += count;
      }
  *b = n;
}

static int longest_side(const box *b) {
  int d = 0;
  for (int k = 1; k < 3; k++)
    if (b->high[k] - b->low[k] > b->high[d] - b->low[d]) d = k;
  return d;
}

/* The colors in the box below `limit` of the side d. */
static uint64_t count_below(const box *b, const cell *cells, int d, int limit) {
  box part = *b;
  part.high[d] = limit;
  shrink(&part, cells);
  return part.count;
}

/* Splits the box at the median of its longest side: the upper half is the result. */
static box split(box *b, const cell *cells) {
  int d = longest_side(b), cut = b->low[d];
  while (cut < b->high[d] - 1 && count_below(b, cells, d, cut) * 2 < b->count) cut++;
  box upper = *b;
  b->high[d] = cut, upper.low[d] = cut + 1;
  shrink(b, cells), shrink(&upper, cells);
  return upper;
}

/* Fills the palette with the means of boxes, and the places of the cells. */
static void cut_boxes(gif *g, const cell *cells) {
  box boxes[COLORS] = {{{0, 0, 0}, {31, 31, 31}, 0}};
  shrink(&boxes[0], cells);
  for (g->colors = 1; g->colors < COLORS; g->colors++) {
    int best = -1;
    double most = 0;
    for (int i = 0; i < g->colors; i++) {
      int d = longest_side(&boxes[i]), side = boxes[i].high[d] - boxes[i].low[d];
      double weight = (double)boxes[i].count * side * side;
      if (side && weight > most) best = i, most = weight;
    }
    if (best < 0) break;
    boxes[g->colors] = split(&boxes[best], cells);
    ltide_poll_hooks(g->L);
  }
  for (int i = 0; i < g->colors; i++) {
    cell mean = {0};
    const box *b = &boxes[i];
    for (int x = b->low[0]; x <= b->high[0]; x++)
      for (int y = b->low[1]; y <= b->high[1]; y++)
        for (int z = b->low[2]; z <= b->high[2]; z++) {
          const cell *c = &cells[cell_at(x, y, z)];
          g->cell_at[cell_at(x, y, z)] = (uint8_t)i;
          mean.count += c->count;
          for (int d = 0; d < 3; d++) mean.sum[d] += c->sum[d];
        }
    for (int d = 0; d < 3; d++)
      g->palette[i] = g->palette[i] << 8 | (uint32_t)((mean.sum[d] + mean.count / 2) / mean.count);
  }
}

static void find_palette(gif *g) {
  lua_State *L = g->L;
  g->is_exact = find_exact(g);
  if (g->is_exact) return;
  cell *cells = lua_newuserdatauv(L, CELLS * sizeof *cells, 0);
  memset(cells, 0, CELLS * sizeof *cells);
  memset(g->palette, 0, sizeof g->palette);
  int64_t n = g->frames * g->h * g->w;
  for (int64_t i = 0; i < n; i++) {
    if (i % g->w == 0) ltide_poll(L, i / g->w);
    const uint8_t *p = g->pixels + 3 * i;
    cell *c = &cells[cell_of(color_of(p))];
    c->count++;
    for (int d = 0; d < 3; d++) c->sum[d] += p[d];
  }
  cut_boxes(g, cells);
  lua_pop(L, 1);
}

static uint8_t index_of(const gif *g, const uint8_t *pixel) {
  if (g->channels == 1) return *pixel;
  uint32_t color = color_of(pixel);
  return g->is_exact ? g->known_at[place_of(g, color)] : g->cell_at[cell_of(color)];
}

/* {==== Bytes */

static void put(gif *g, const void *bytes, size_t n) {
  if (fwrite(bytes, 1, n, g->file) != n) ltide_file_error(g->L, "written", g->name);
}

static void put_byte(gif *g, int byte) {
  uint8_t b = (uint8_t)byte;
  put(g, &b, 1);
}

static void put_short(gif *g, int64_t v) { put_byte(g, (int)(v & 255)), put_byte(g, (int)(v >> 8 & 255)); }

static void end_block(gif *g) {
  if (g->used) put_byte(g, g->used), put(g, g->block, (size_t)g->used);
  g->used = 0;
}

/* {==== LZW */

static void put_code(gif *g, int code, int width) {
  g->pending |= (uint32_t)code << g->bits;
  for (g->bits += width; g->bits >= 8; g->bits -= 8, g->pending >>= 8) {
    g->block[g->used++] = (uint8_t)g->pending;
    if (g->used == BLOCK) end_block(g);
  }
}

typedef struct encoder {
  int least, next, width; /* least: bits of a byte; next: the code that the next string gets */
  int prefix;             /* the code of what has been read, or -1 */
} encoder;

static void clear_codes(gif *g, encoder *e) {
  memset(g->slot, 0, sizeof g->slot);
  put_code(g, 1 << e->least, e->width);
  e->next = (1 << e->least) + 2, e->width = e->least + 1;
}

static void encode(gif *g, encoder *e, uint8_t byte) {
  if (e->prefix < 0) {
    e->prefix = byte;
    return;
  }
  uint32_t key = (uint32_t)e->prefix << 8 | byte, at = key * 2654435761u >> 19;
  while (g->slot[at] && g->slot[at] != key + 1) at = (at + 1) % SLOTS;
  if (g->slot[at]) {
    e->prefix = g->code_at[at];
    return;
  }
  put_code(g, e->prefix, e->width);
  e->prefix = byte;
  if (e->next == MOST_CODES) return clear_codes(g, e);
  g->slot[at] = key + 1, g->code_at[at] = (uint16_t)e->next;
  if (e->next++ == 1 << e->width && e->width < 12) e->width++;
}

/* Bits of an index. */
static int depth_of(const gif *g) {
  int depth = 1;
  while (1 << depth < g->colors) depth++;
  return depth;
}

/* {==== Frames */

/* The part of frame k that differs from the one before. */
typedef struct part {
  int64_t top, bottom, left, right; /* inclusive */
} part;

static part changed_part(const gif *g, int64_t k) {
  part p = {0, g->h - 1, 0, g->w - 1};
  size_t row = (size_t)(g->w * g->channels);
  const uint8_t *now = g->pixels + (size_t)(k * g->h) * row, *before = now - (size_t)g->h * row;
  if (k == 0) return p;
  while (p.top < p.bottom && !memcmp(now + (size_t)p.top * row, before + (size_t)p.top * row, row)) p.top++;
  while (p.bottom > p.top && !memcmp(now + (size_t)p.bottom * row, before + (size_t)p.bottom * row, row)) p.bottom--;
  int64_t left = (int64_t)row, right = 0;
  for (int64_t y = p.top; y <= p.bottom; y++) {
    const uint8_t *a = now + (size_t)y * row, *b = before + (size_t)y * row;
    int64_t from = 0, to = (int64_t)row - 1;
    while (from < left && a[from] == b[from]) from++;
    while (to > right && a[to] == b[to]) to--;
    if (from < left) left = from;
    if (to > right && a[to] != b[to]) right = to;
  }
  if (left == (int64_t)row) left = 0; /* nothing has changed: one pixel is written */
  p.left = left / g->channels, p.right = right / g->channels;
  if (p.right < p.left) p.right = p.left;
  return p;
}

static void put_frame(gif *g, int64_t k, int delay) {
  part p = changed_part(g, k);
  int depth = depth_of(g), s = g->scale;
  put(g, "\x21\xf9\x04\x04", 4); /* what follows is drawn over what is there */
  put_short(g, delay), put_byte(g, 0), put_byte(g, 0);
  put_byte(g, 0x2c);
  put_short(g, p.left * s), put_short(g, p.top * s);
  put_short(g, (p.right - p.left + 1) * s), put_short(g, (p.bottom - p.top + 1) * s);
  put_byte(g, 0);
  encoder e = {.least = depth < 2 ? 2 : depth, .prefix = -1};
  e.width = e.least + 1;
  put_byte(g, e.least);
  g->used = g->bits = 0, g->pending = 0;
  clear_codes(g, &e);
  for (int64_t y = p.top; y <= p.bottom; y++)
    for (int i = 0; i < s; i++) {
      const uint8_t *pixel = g->pixels + ((k * g->h + y) * g->w + p.left) * g->channels;
      ltide_poll(g->L, y);
      for (int64_t x = p.left; x <= p.right; x++, pixel += g->channels) {
        uint8_t index = index_of(g, pixel);
        for (int j = 0; j < s; j++) encode(g, &e, index);
      }
    }
  put_code(g, e.prefix, e.width);
  if (e.next == 1 << e.width && e.width < 12) e.width++; /* the reader has made a string of it */
  put_code(g, (1 << e.least) + 1, e.width);
  if (g->bits) put_code(g, 0, 8 - g->bits);
  end_block(g);
  put_byte(g, 0);
}

static void put_head(gif *g, int64_t loop) {
  int depth = depth_of(g);
  put(g, "GIF89a", 6);
  put_short(g, g->w * g->scale), put_short(g, g->h * g->scale);
  put_byte(g, 0x80 | 7 << 4 | (depth - 1)), put_byte(g, 0), put_byte(g, 0);
  for (int i = 0; i < 1 << depth; i++)
    for (int shift = 16; shift >= 0; shift -= 8) put_byte(g, i < g->colors ? (int)(g->palette[i] >> shift & 255) : 0);
  if (loop == 1 || g->frames == 1) return;
  put(g, "\x21\xff\x0bNETSCAPE2.0\x03\x01", 16);
  put_short(g, loop ? loop - 1 : 0), put_byte(g, 0);
}

/* write_gif(path, pixels, palette or nil, fps, loop, scale) */
static int script_write_gif(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  gif *g = lua_newuserdatauv(L, sizeof *g, 0);
  memset(g, 0, sizeof *g);
  g->L = L;
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_contiguous(&u->t, ltide_check_tensor(L, S, 2, "frames")));
  const int64_t *size = tide_tensor_size(u->t);
  g->frames = size[0], g->h = size[1], g->w = size[2], g->channels = tide_tensor_ndim(u->t) == 4 ? 3 : 1;
  g->pixels = tide_tensor_data(u->t);
  g->scale = (int)lua_tointeger(L, 6);
  double delay = 100 / lua_tonumber(L, 4);
  if (lua_istable(L, 3)) {
    g->colors = COLORS;
    for (int i = 0; i < COLORS; i++) {
      lua_rawgeti(L, 3, i + 1);
      g->palette[i] = (uint32_t)lua_tointeger(L, -1);
      lua_pop(L, 1);
    }
  } else
    find_palette(g);
  ltide_file *own;
  g->file = ltide_check_file(L, 1, true, &own, &g->name);
  put_head(g, lua_tointeger(L, 5));
  for (int64_t k = 0; k < g->frames; k++) {
    ltide_check_time(L);
    put_frame(g, k, (int)(floor((double)(k + 1) * delay + 0.5) - floor((double)k * delay + 0.5)));
  }
  put_byte(g, 0x3b);
  ltide_file_finish(L, own);
  return 0;
}

static const luaL_Reg script[] = {{"write_gif", script_write_gif}, {NULL, NULL}};

void ltide_open_gif(lua_State *L, ltide_state *S) { ltide_script_give(L, "data/gif.c", script); }
