/* row.c: the rows of functions: which there are, and their signatures, read.
 *
 * A list of rows is noted by address for help() and the like. A signature is read when it is first asked for, and kept
 * in its row for as long as the process lives; two threads that read the same one at once keep the first.
 *
 * Invariant: who reads the notes takes no lock: what their count covers is written before it and never changed. */
#include <pthread.h>
#include <stdlib.h>

#include "row.h"

/* {==== Notes */

typedef struct note {
  _Atomic(struct note *) next;
  const char *path;
  const void *key; /* what was registered: rows, or a name */
  ltide_row *rows;
  int count;
} note;

/* Never freed: each state finds what another one has noted. */
static _Atomic(note *) first_note;
static note *last_note; /* under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define EACH_NOTE(n) for (const note *n = atomic_load(&first_note); n; n = atomic_load(&n->next))

static const note *find_note(const char *path, const void *key) {
  EACH_NOTE(n) if (n->key == key && !strcmp(n->path, path)) return n;
  return NULL;
}

void ltide_each_row(ltide_row_visit visit, void *ctx) {
  EACH_NOTE(n)
  for (int k = 0; k < n->count; k++) {
    const ltide_row *row = &n->rows[k];
    if (row->where != LTIDE_IN_METHODS) visit(ctx, row->path ? row->path : n->path, row);
    if (row->where & LTIDE_IN_METHODS) visit(ctx, "Tensor", row);
  }
}

/* Of the list that has the row; NULL: it is none. */
static const note *note_of(const ltide_row *row) {
  EACH_NOTE(n) if (row >= n->rows && row < n->rows + n->count) return n;
  return NULL;
}

/* Several Lua states may open at once, and each notes the same. */
int ltide_row_note(const char *path, const void *key, ltide_row *rows, int count) {
  if (key == rows ? note_of(rows) != NULL : find_note(path, key) != NULL) return 0;
  note *new = calloc(1, sizeof *new);
  if (!new) return -1;
  new->path = path, new->key = key, new->rows = rows, new->count = count;
  pthread_mutex_lock(&lock);
  bool is_new = !find_note(path, key);
  if (is_new) {
    atomic_store(last_note ? &last_note->next : &first_note, new);
    last_note = new;
  }
  pthread_mutex_unlock(&lock);
  if (!is_new) free(new);
  return is_new;
}

const ltide_row *ltide_row_at(lua_State *L, int arg) {
  arg = lua_absindex(L, arg);
  if (!lua_iscfunction(L, arg) || !lua_getupvalue(L, arg, 1)) return NULL;
  const void *p = lua_islightuserdata(L, -1) ? lua_touserdata(L, -1) : NULL;
  lua_pop(L, 1);
  return p && note_of(p) ? p : NULL;
}

const ltide_row *ltide_row_running(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar)) return NULL;
  lua_getinfo(L, "f", &ar);
  const ltide_row *row = ltide_row_at(L, -1);
  lua_pop(L, 1);
  return row;
}

/* {==== Reading a signature */

typedef struct reader {
  const char *at; /* what is left */
  char *text;     /* where copies go; room for as many bytes as the doc has, and one more for each word */
  ltide_sig *sig;
  int depth;       /* of brackets */
  bool in_options; /* within braces */
  bool seen;       /* a required parameter behind the receiver */
} reader;

static bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t word_length(const char *p) {
  size_t n = 0;
  while (is_word(p[n])) n++;
  return n;
}

static char *keep(reader *r, const char *p, size_t n) {
  char *text = memcpy(r->text, p, n);
  text[n] = 0;
  r->text += n + 1;
  return text;
}

bool ltide_is_in(const char *words, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strstr(words, name); n && at; at = strstr(at + 1, name))
    if (at > words && at[-1] == ' ' && at[n] == ' ') return true;
  return false;
}

static ltide_kind kind_of_name(const char *name) {
#define NAMES(kind, words)                                                                                             \
  if (ltide_is_in(words, name)) return LTIDE_##kind;
#include "call/api/parameters.def"
  return LTIDE_ANY;
}

static ltide_kind kind_of_word(const char *word, size_t n) {
  static const char *const words[] = {
#define KIND(name, word_, expected, type) word_,
#include "call/api/kinds.def"
  };
  int k = 0;
  while (k < LTIDE_KINDS && (strlen(words[k]) != n || memcmp(words[k], word, n))) k++;
  return k < LTIDE_KINDS ? (ltide_kind)k : LTIDE_ANY;
}

/* The end of a default: a comma or bracket outside of quotes and braces. */
static const char *standard_end(const char *p) {
  int depth = 0;
  for (char quote = 0; *p && *p != '\n'; p++) {
    if (quote || *p == '\'') {
      if (quote && *p == '\'')
        quote = 0;
      else
        quote = '\'';
    } else if (*p == '[' && p[-1] == ' ' && !depth)
      break;
    else if (strchr("{([", *p))
      depth++;
    else if (depth && strchr("})]", *p))
      depth--;
    else if (!depth && strchr(",]})", *p))
      break;
  }
  return p;
}

/* 'a' or 'b': what a parameter can be, kept as a list. */
static const char *read_choices(reader *r, const char *standard) {
  char *list = r->text;
  for (const char *p = strchr(standard, '\''); p; p = strchr(p, '\'')) {
    const char *end = strchr(++p, '\'');
    keep(r, p, (size_t)(end - p));
    p = end + 1;
  }
  *r->text++ = 0;
  return list;
}

static void read_standard(reader *r, ltide_param *p) {
  const char *end = standard_end(++r->at);
  while (end > r->at && end[-1] == ' ') end--;
  while (r->at < end && *r->at == ' ') r->at++;
  p->standard = keep(r, r->at, (size_t)(end - r->at));
  p->number = !strcmp(p->standard, "true") ? 1 : strtod(p->standard, NULL);
  bool has_choices = p->standard[0] == '\'' && strstr(p->standard, "' or '");
  if (has_choices) p->choices = read_choices(r, p->standard), p->kind = LTIDE_CHOICE;
  if (p->kind == LTIDE_OUT) {
    r->sig->outs = 1;
    for (const char *c = p->standard; *c; c++) r->sig->outs += *c == ',';
  }
  r->at = end;
}

static void count_param(reader *r, ltide_param *p) {
  ltide_sig *sig = r->sig;
  p->is_option = r->in_options, p->is_optional = r->in_options || r->depth;
  sig->count++;
  if (p->is_option) return;
  sig->positional = sig->count;
  if (p->is_optional) {
    sig->leading += !r->seen;
    return;
  }
  r->seen = true;
  sig->required++, sig->last = sig->count;
}

/* The object that a method is called of, at the beginning of the line. */
static void read_receiver(reader *r) {
  ltide_param *p = &r->sig->param[0];
  size_t n = word_length(r->at);
  *p = (ltide_param){.name = keep(r, r->at, n)};
  p->kind = kind_of_name(p->name);
  count_param(r, p);
  r->seen = false;
}

static void read_param(reader *r) {
  ltide_param *p = &r->sig->param[r->sig->count];
  size_t n = word_length(r->at);
  *p = (ltide_param){.name = keep(r, r->at, n)};
  r->at += n;
  p->kind = kind_of_name(p->name);
  if (*r->at == ':') {
    n = word_length(++r->at);
    p->kind = kind_of_word(r->at, n);
    r->at += n;
  }
  if (!strncmp(r->at, "...", 3)) p->is_rest = true, r->at += 3;
  if (p->is_rest && p->kind == LTIDE_ANY) p->kind = LTIDE_REST;
  if (p->kind == LTIDE_REST) r->sig->is_open = true;
  count_param(r, p);
  p->takes_nil = !strncmp(r->at, " or nil", 7);
  while (!strncmp(r->at, " or ", 4) && is_word(r->at[4])) r->at += 4 + word_length(r->at + 4); /* dim or y */
  if (p->is_optional) p->standard = "";
  if (r->at[strspn(r->at, " ")] == '=') r->at += strspn(r->at, " "), read_standard(r, p);
}

/* The parameters behind the opening bracket, to the one that closes it. */
static void read_params(reader *r, char close) {
  for (; *r->at && *r->at != '\n'; r->at++) {
    while (is_word(*r->at)) read_param(r);
    if (!*r->at || *r->at == '\n') break;
    if (!strncmp(r->at, "...", 3)) r->sig->is_open = true, r->at += 2;
    if (*r->at == close && !r->depth && !r->in_options) break;
    if (*r->at == '[') r->depth++;
    if (*r->at == ']') r->depth--;
    if (*r->at == '{') r->in_options = true;
    if (*r->at == '}') r->in_options = false;
  }
}

static bool is_later(const ltide_sig *sig, const ltide_param *p) {
  if (p->kind == LTIDE_OUT || !sig->makes || !p->is_option) return p->kind == LTIDE_OUT;
  return p->kind == LTIDE_DTYPE || p->kind == LTIDE_DEVICE || !strcmp(p->name, "pin_memory");
}

/* What may be given by name: all but what must stand in front. */
static void list_keys(ltide_sig *sig, const char **keys) {
  bool makes = false;
  sig->keys = keys;
  for (int i = 0; i < sig->count; i++) {
    const ltide_param *p = &sig->param[i];
    bool is_first = !i && !p->is_option && (!p->is_optional || sig->leading);
    if (!is_first && p->kind != LTIDE_REST) *keys++ = p->name;
    makes = makes || (p->is_option && p->kind == LTIDE_DTYPE);
    sig->makes = sig->makes || (makes && p->is_option && p->kind == LTIDE_DEVICE);
  }
  *keys = NULL;
  for (int i = 0; i < sig->count; i++) sig->param[i].is_later = is_later(sig, &sig->param[i]);
}

/* Reads the first line: "tide.f(", "x:f(" or "tide.f{" and what follows. */
static ltide_sig *read_sig(const char *doc) {
  size_t length = strcspn(doc, "\n"), open = strcspn(doc, "({\n");
  int most = 1; /* as many as there are words */
  for (size_t i = 1; i < length; i++) most += is_word(doc[i]) && !is_word(doc[i - 1]);
  size_t params = sizeof(ltide_sig) + (size_t)most * sizeof(ltide_param), keys = (size_t)(most + 1) * sizeof(char *);
  char *block = calloc(1, params + keys + 2 * length + 16);
  if (!block) return NULL;
  reader r = {.sig = (ltide_sig *)block, .text = block + params + keys};
  const char *colon = memchr(doc, ':', open);
  r.at = doc;
  if (colon) read_receiver(&r);
  r.at = doc + open + (doc[open] == '(');
  if (doc[open] == '(') read_params(&r, ')');
  if (doc[open] == '{') read_params(&r, 0);
  if (!r.seen) r.sig->leading = 0;
  const char *arrow = strstr(doc, "-> ");
  bool has_results = arrow && arrow < doc + length;
  r.sig->results = has_results ? keep(&r, arrow + 3, strcspn(arrow + 3, ";\n")) : "";
  list_keys(r.sig, (const char **)(block + params));
  return r.sig;
}

/* Are the parameters those of core's function? Any row may take out=. */
static bool fits_shape(const ltide_row *row, const ltide_sig *sig) {
  static const char letters[LTIDE_KINDS] = {
      [LTIDE_TENSOR] = 't',  [LTIDE_DIM] = 'd',   [LTIDE_LINE] = 'd',  [LTIDE_PLACE] = 'd', [LTIDE_DIMS] = 'D',
      [LTIDE_ALLDIMS] = 'D', [LTIDE_SIZES] = 's', [LTIDE_SHAPE] = 's', [LTIDE_LIKE] = 's',  [LTIDE_DTYPE] = 'y'};
  const char *shape = row->shape;
  for (int i = 0; shape && i < sig->count; i++) {
    if (sig->param[i].kind == LTIDE_OUT)
      shape += *shape == 'o';
    else if (!*shape || letters[sig->param[i].kind] != *shape++)
      return false;
  }
  return !shape || !*shape;
}

const ltide_sig *ltide_row_sig_slow(ltide_row *row) {
  if (!row->doc || !row->doc[strcspn(row->doc, "({\n")] || row->doc[strcspn(row->doc, "({\n")] == '\n') return NULL;
  ltide_sig *sig = read_sig(row->doc), *first = NULL;
  if (sig && !fits_shape(row, sig)) free(sig), sig = NULL;
  if (!sig || atomic_compare_exchange_strong(&row->sig, &first, sig)) return sig;
  free(sig);
  return first;
}

static const char *const types[] = {
#define KIND(name, word, expected, type) type,
#include "call/api/kinds.def"
};
static const char *const expectations[] = {
#define KIND(name, word, expected, type) expected,
#include "call/api/kinds.def"
};

const char *ltide_kind_type(const ltide_param *p) { return types[p->kind]; }
const char *ltide_kind_expected(const ltide_param *p) { return expectations[p->kind]; }

/* A kind stands behind a name and a colon, within the brackets of the first line. The path stands in front where the
 * doc begins with the name. */
const char *ltide_push_doc(lua_State *L, const ltide_row *row, bool first_line) {
  const char *doc = row->doc;
  const note *n = note_of(row);
  size_t line = strcspn(doc, "\n"), open = strcspn(doc, "({\n"), name = strlen(row->name);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  bool is_bare = n && !strncmp(doc, row->name, name) && !is_word(doc[name]) && !strchr(".:", doc[name]);
  if (is_bare) luaL_addstring(&b, n->path), luaL_addchar(&b, '.');
  luaL_addlstring(&b, doc, open);
  for (size_t i = open; i < line; i++) {
    size_t length = doc[i] == ':' && is_word(doc[i - 1]) ? word_length(doc + i + 1) : 0;
    bool is_kind = length && kind_of_word(doc + i + 1, length) != LTIDE_ANY;
    if (is_kind || (length == 3 && !memcmp(doc + i + 1, "any", 3)))
      i += length;
    else
      luaL_addchar(&b, doc[i]);
  }
  if (!first_line) luaL_addstring(&b, doc + line);
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}
