/* nearest.c: the nearest of many names, by the distance of Damerau and Levenshtein. */

#include <string.h>
#include "did_you_mean.h"

enum { LONGEST = 40 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* How many characters must be changed, added, left out or exchanged with their neighbor. */
static int distance(const char *a, const char *b) {
  int n = (int)strlen(a), m = (int)strlen(b), row[3][LONGEST + 1];
  int *before = row[0], *last = row[1], *now = row[2];
  for (int j = 0; j <= m; j++) last[j] = j;
  for (int i = 1; i <= n; i++) {
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int same = lower(a[i - 1]) == lower(b[j - 1]), least = last[j - 1] + !same;
      if (last[j] + 1 < least) least = last[j] + 1;
      if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
      bool crossed = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (crossed && before[j - 2] + 1 < least) least = before[j - 2] + 1;
      now[j] = least;
    }
    int *free_row = before;
    before = last, last = now, now = free_row;
  }
  return last[m];
}

void ltide_nearest_try(ltide_nearest *near, const char *name) {
  size_t n = strnlen(near->wanted, LONGEST + 1), m = strlen(name); /* a script's may be megabytes, and the names many */
  int most = n <= 2 ? 0 : n <= 4 ? 1 : n <= 8 ? 2 : 3;
  if (n > LONGEST || m > LONGEST || name[0] == '_') return;
  int d = distance(near->wanted, name);
  if (d > most || (near->name && d > near->distance)) return;
  /* Of equals a name with the same beginning, then the first in the alphabet: the order of a table is by chance. */
  bool alike = name[0] == near->wanted[0], was_alike = near->name && near->name[0] == near->wanted[0];
  bool is_tie = near->name && d == near->distance;
  if (is_tie && (alike != was_alike ? was_alike : strcmp(name, near->name) >= 0)) return;
  near->name = name, near->distance = d;
}

void ltide_nearest_keys(lua_State *L, int table, ltide_nearest *near) {
  table = lua_absindex(L, table);
  if (!lua_istable(L, table)) return; /* an __index can be called with anything */
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) ltide_nearest_try(near, lua_tostring(L, -2));
}
