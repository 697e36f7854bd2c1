/* csv.h: what csv.c, which reads, and csv_write.c share. */
#pragma once

#include "call/row.h"

/* The double nearest to the decimal number [from, to), or false where that is no number. */
bool ltide_csv_double(double *out, const char *from, const char *to);
/* The one character of an option, or `standard`. */
char ltide_csv_char(lua_State *L, const ltide_value *v, const char *name, char standard);
int lsave_csv(lua_State *L, ltide_call *c);
