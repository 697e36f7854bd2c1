/* class.h: classes of userdata, as data: how their objects end and print, their methods and fields. */
#pragma once

#include "fields.h"
#include "row.h"

/* An object holds one pointer, or a struct of `size` bytes; the functions below get that pointer or the address of the
 * struct. What a class does not have is NULL. */
typedef struct ltide_class {
  const char *meta;              /* the name of its metatable: "tide.cuda.Stream" */
  const char *name;              /* in messages and help: "Stream" */
  ltide_row *rows;               /* its fields (FIELD) and methods */
  const ltide_field *members;    /* further fields: what the struct has */
  size_t size;                   /* of the struct; 0: it holds one pointer */
  void (*release)(void *object); /* by the finaliser; once for a pointer, while a struct may see it again */
  int (*tostring)(lua_State *L, void *object);
  bool (*equal)(void *a, void *b);
  const luaL_Reg *others; /* further metamethods */
} ltide_class;

/* Makes the metatable, closed to scripts, and returns its address. */
const void *ltide_open_class(lua_State *L, const ltide_class *c);
/* Pushes an object that holds nothing yet: all its bytes are 0. */
void *ltide_new_instance(lua_State *L, const ltide_class *c);
