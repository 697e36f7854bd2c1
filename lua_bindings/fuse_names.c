/* fuse_names.c: what the compiled form of a function tells: the strings that it names, and whether it writes to tables
 * that it has not made. Its format is that of Lua 5.4 (ldump.c and lopcodes.h there). */
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

enum { INTEGER_TAG = 3, FLOAT_TAG = 0x13, SHORT_TAG = 4, LONG_TAG = 0x14 };

/* {==== Code */

enum {
  SETUPVAL = 10,
  GETTABUP,
  SETTABUP = 15,
  SETTABLE,
  SETI,
  SETFIELD,
  NEWTABLE,
  JMP = 56,
  FORLOOP = 73,
  FORPREP,
  TFORPREP,
  TFORCALL,
  TFORLOOP,
  SETLIST,
  EXTRAARG = 82
};

typedef struct code {
  const unsigned char *at;
  size_t n;
} code;

static uint32_t word_of(const code *c, size_t i) {
  uint32_t word;
  memcpy(&word, c->at + 4 * i, sizeof word);
  return word;
}
static int op_of(uint32_t word) { return word & 0x7f; }
static int a_of(uint32_t word) { return word >> 7 & 0xff; }

static bool is_global_key(const code *c, size_t constant) {
  for (size_t i = 0; i < c->n; i++) {
    uint32_t word = word_of(c, i);
    if (op_of(word) == GETTABUP && word >> 24 == constant) return true;
  }
  return false;
}

/* Where the instruction may go on instead of with the next one; 0: nowhere. */
static int64_t target_of(const code *c, size_t i) {
  uint32_t word = word_of(c, i);
  int64_t next = (int64_t)i + 1, far = word >> 15;
  switch (op_of(word)) {
  case JMP: return next + (int64_t)(word >> 7) - 0xffffff;
  case FORLOOP:
  case TFORLOOP: return next - far;
  case FORPREP: return next + far + 1;
  case TFORPREP: return next + far;
  default: return 0;
  }
}

/* Does instruction i write to a table that the function has just made, straight before: a constructor's? */
static bool writes_fresh(const code *c, size_t i) {
  int table = a_of(word_of(c, i));
  size_t from = i;
  while (from-- > 0) {
    uint32_t word = word_of(c, from);
    int op = op_of(word), a = a_of(word);
    if (op == NEWTABLE && a == table) break;
    bool keeps = a > table || (a == table && (op == SETFIELD || op == SETI || op == SETTABLE || op == SETLIST));
    if (!keeps && op != EXTRAARG && a == table) return false;
    if (target_of(c, from) || from == 0) return false;
  }
  for (size_t k = 0; k < c->n; k++) {
    int64_t to = target_of(c, k);
    if (to > (int64_t)from && to <= (int64_t)i) return false;
  }
  return true;
}

/* Or to a variable of the function around, which may be such a table? */
static bool writes_tables(const code *c, bool is_inner) {
  for (size_t i = 0; i < c->n; i++) {
    int op = op_of(word_of(c, i));
    if (op == SETTABUP || (op == SETUPVAL && is_inner)) return true;
    if ((op == SETTABLE || op == SETI || op == SETFIELD) && !writes_fresh(c, i)) return true;
  }
  return false;
}

static void read_constants(fuse_recorder *r, bytes *b, const code *c) {
  size_t n = read_size(b);
  for (size_t i = 0; i < n && !b->bad; i++) {
    int tag = read_byte(b);
    if (tag == INTEGER_TAG || tag == FLOAT_TAG) skip(b, 8);
    if (tag != SHORT_TAG && tag != LONG_TAG) continue;
    size_t length = read_size(b);
    const unsigned char *text = length ? skip(b, length - 1) : (const unsigned char *)"";
    if (b->bad) return;
    lua_pushlstring(r->L, (const char *)text, length ? length - 1 : 0);
    add_name(r, is_global_key(c, i));
  }
}

/* Does it write to tables that it has not made, itself or by what is inside? */
static bool read_function(fuse_recorder *r, bytes *b, int depth) {
  skip_string(b);
  read_size(b), read_size(b);
  skip(b, 3);
  code c = {.n = read_size(b)};
  c.at = c.n <= b->size / 4 ? skip(b, 4 * c.n) : (b->bad = true, b->at);
  if (b->bad) return true;
  bool writes = writes_tables(&c, depth > 0);
  read_constants(r, b, &c);
  skip(b, 3 * read_size(b));
  size_t inner = read_size(b);
  for (size_t i = 0; i < inner && !b->bad && depth < 50; i++) writes |= read_function(r, b, depth + 1);
  skip(b, read_size(b));
  for (size_t i = 2 * read_size(b); i > 0 && !b->bad; i--) read_size(b);
  for (size_t i = read_size(b); i > 0 && !b->bad; i--) skip_string(b), read_size(b), read_size(b);
  for (size_t i = read_size(b); i > 0 && !b->bad; i--) skip_string(b);
  return writes;
}

bool fuse_names_note(fuse_recorder *r) {
  enum { HEADER = 4 + 2 + 6 + 3 + 8 + 8 + 1 };
  bytes b = {0};
  writer w;
  bool writes = true;
  w.begun = false;
  if (lua_dump(r->L, take, &w, 1) == 0 && w.begun) {
    luaL_pushresult(&w.buffer);
    b.at = (const unsigned char *)lua_tolstring(r->L, -1, &b.size);
    b.next = HEADER, b.bad = b.size <= HEADER;
    if (!b.bad) writes = read_function(r, &b, 0);
    lua_pop(r->L, 1);
  } else
    b.bad = true;
  if (b.bad) fuse_decline(r, "what it names cannot be read");
  return writes;
}

#endif
