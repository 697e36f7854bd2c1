/* fuse_names.c: the strings that a function names, which its compiled form tells. That is of Lua 5.4's format
 * (ldump.c). */
#include "fuse.h"

#if LUA_VERSION_NUM == 504

/* {==== Reading */

typedef struct bytes {
  const unsigned char *at;
  size_t size, next;
  bool bad;
} bytes;

/* In a buffer of Lua's, since noting a name may raise an error. */
typedef struct writer {
  bool begun;
  luaL_Buffer buffer;
} writer;

static int take(lua_State *L, const void *p, size_t n, void *user) {
  writer *w = user;
  if (!w->begun) luaL_buffinit(L, &w->buffer), w->begun = true;
  luaL_addlstring(&w->buffer, p, n);
  return 0;
}

static const unsigned char *skip(bytes *b, size_t n) {
  if (b->bad || n > b->size - b->next) return b->bad = true, (const unsigned char *)"";
  b->next += n;
  return b->at + b->next - n;
}

static int read_byte(bytes *b) { return *skip(b, 1); }

static size_t read_size(bytes *b) {
  size_t x = 0;
  for (int i = 0; i < 10 && !b->bad; i++) {
    int c = read_byte(b);
    x = x << 7 | (size_t)(c & 0x7f);
    if (c & 0x80) break;
  }
  return x;
}

static void skip_string(bytes *b) {
  size_t n = read_size(b);
  if (n) skip(b, n - 1);
}

/* Adds the string at the top, which is popped, to the names. */
static void add_name(fuse_recorder *r, bool global) {
  lua_pushvalue(r->L, -1);
  bool was = lua_rawget(r->L, r->names) == LUA_TBOOLEAN && lua_toboolean(r->L, -1);
  lua_pop(r->L, 1);
  lua_pushboolean(r->L, was || global);
  lua_rawset(r->L, r->names);
}

enum {
  GETTABUP = 11,
  FALSE_TAG = 1,
  TRUE_TAG = 0x11,
  INTEGER_TAG = 3,
  FLOAT_TAG = 0x13,
  SHORT_TAG = 4,
  LONG_TAG = 0x14
};

static bool is_global_key(const unsigned char *code, size_t n, size_t constant) {
  for (size_t i = 0; i < n; i++) {
    uint32_t word;
    memcpy(&word, code + 4 * i, sizeof word);
    if ((word & 0x7f) == GETTABUP && word >> 24 == constant) return true;
  }
  return false;
}

static void read_constants(fuse_recorder *r, bytes *b, const unsigned char *code, size_t words) {
  size_t n = read_size(b);
  for (size_t i = 0; i < n && !b->bad; i++) {
    int tag = read_byte(b);
    if (tag == INTEGER_TAG || tag == FLOAT_TAG) skip(b, 8);
    if (tag != SHORT_TAG && tag != LONG_TAG) continue;
    size_t length = read_size(b);
    const unsigned char *text = length ? skip(b, length - 1) : (const unsigned char *)"";
    if (b->bad) return;
    lua_pushlstring(r->L, (const char *)text, length ? length - 1 : 0);
    add_name(r, is_global_key(code, words, i));
  }
}

static void read_function(fuse_recorder *r, bytes *b, int depth) {
  skip_string(b);
  read_size(b), read_size(b);
  skip(b, 3);
  size_t words = read_size(b);
  const unsigned char *code = words <= b->size / 4 ? skip(b, 4 * words) : (b->bad = true, b->at);
  read_constants(r, b, code, words);
  skip(b, 3 * read_size(b));
  size_t inner = read_size(b);
  for (size_t i = 0; i < inner && !b->bad && depth < 50; i++) read_function(r, b, depth + 1);
  skip(b, read_size(b));
  for (size_t i = 2 * read_size(b); i > 0 && !b->bad; i--) read_size(b);
  for (size_t i = read_size(b); i > 0 && !b->bad; i--) skip_string(b), read_size(b), read_size(b);
  for (size_t i = read_size(b); i > 0 && !b->bad; i--) skip_string(b);
}

void fuse_names_note(fuse_recorder *r) {
  enum { HEADER = 4 + 2 + 6 + 3 + 8 + 8 + 1 };
  bytes b = {0};
  writer w;
  w.begun = false;
  if (lua_dump(r->L, take, &w, 1) == 0 && w.begun) {
    luaL_pushresult(&w.buffer);
    b.at = (const unsigned char *)lua_tolstring(r->L, -1, &b.size);
    b.next = HEADER, b.bad = b.size <= HEADER;
    if (!b.bad) read_function(r, &b, 0);
    lua_pop(r->L, 1);
  } else
    b.bad = true;
  if (b.bad) fuse_decline(r, "what it names cannot be read");
}

#endif
