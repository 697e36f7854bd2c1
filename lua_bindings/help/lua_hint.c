/* lua_hint.c: what to write instead, added by the runner to Lua's own messages.
 *
 * Lua's messages say what is wrong with the text, not what a user of Python or torch meant by it. A message is searched
 * for the pieces below; the first that stands in it gives the hint. The message itself stays as Lua wrote it. */

#include "call/did_you_mean.h"

typedef struct lua_hint {
  const char *piece, *hint;
} lua_hint;

#define MODULE_OR_WITH                                                                                                 \
  "a module is loaded by local tide = require \"tide\", and a with block is tide.cuda.stream(s, function() ... end)"
#define COMPARES "x == y compares whole tensors and gives true or false; x:eq(y) compares their elements"
static const lua_hint of_text[] = {
    {"<name> expected near 'repeat'", "repeat is a word of Lua: x:tile(...) or x:repeat_tensor(...)"},
    {"near '<\\", "names are made of a to z, A to Z, 0 to 9 and _, and quotes are ' and \""},
    {"near '!'", "not equal is ~=, and ! is written not"},
    {"near '@'", "the matrix product is x:matmul(y)"},
    {"syntax error near '//'", "a comment begins with --; Lua has no //=: x = x // 2"},
    {"unexpected symbol near '//'", "a comment begins with --"},
    {"unexpected symbol near '#'", "a comment begins with --; # is a length, #x"},
    {"syntax error near '%'", "Lua has no %=: x = x % 2"},
    {"syntax error near '^'", "Lua has no ^=: x = x ^ 2"},
    {"near '&'", "and is written and; of tensors x & y"},
    {"near '|'", "or is written or; of tensors x | y"},
    {"near '?'", "a choice is c and x or y; of tensors tide.where(c, x, y)"},
    {"unexpected symbol near '+'", "Lua has no ++: x = x + 1"},
    {"syntax error near '+'", "Lua has no += and ++: x = x + 1, or x:add_(1) in place"},
    {"syntax error near '-'", "Lua has no -= and --: x = x - 1, or x:sub_(1) in place"},
    {"syntax error near '*'", "Lua has no *= and **: x = x * 2, or x:mul_(2) in place; a power is x ^ 2"},
    {"unexpected symbol near '*'", "Lua has no **: a power is x ^ 2"},
    {"unexpected symbol near '{'", "a body ends with end: function f(x) ... end, if c then ... end"},
    {"<name> expected near '('", "counting is for i = 1, n do ... end"},
    {"'=' or 'in' expected", "counting is for i = 1, n do, a list is walked by for i, v in ipairs(list) do"},
    {"syntax error near '/'", "Lua has no /=: x = x / 2, or x:div_(2) in place"},
    {"')' expected near '='", "options stand in a table: x:sum{dim = 1}"},
    {"']' expected near ','", "several indexes stand in a table: x[{1, 2}]"},
    {"']' expected near ':'", "a range is a table: x[{ {1, 2} }] are the rows 1 and 2"},
    {"expected near ':'", "parameters have no types, f(i, x), and blocks end with end: if x then ... end"},
    {"unexpected symbol near ':'", "all of a dimension is {}: x[{ {}, 1 }] is the first column"},
    {"function arguments expected", "a method is called, x:sum(), and a field stands behind a dot, x.shape"},
    {"syntax error near 'tide'", MODULE_OR_WITH},
    {"syntax error near 'torch'", MODULE_OR_WITH},
    {"unexpected symbol near '['", "a list is {1, 2, 3}, and a tensor of it tide.tensor {1, 2, 3}"},
    {"index a boolean value", COMPARES},
    {"arithmetic on a boolean value", COMPARES},
    {"with a 'string'", "strings are joined by .."},
    {"concatenate a tide.Shape value", "tostring(x.shape) is its text"},
    {"nil value (global 'unpack')", "it is table.unpack"},
    {"nil value (global 'loadstring')", "it is load"},
    {"nil value (global 'setfenv')", "load(text, name, 't', env) takes an environment"},
    {"nil value (field 'getn')", "the length is #t"},
    {"nil value (global 'enumerate')", "for i, v in ipairs(list) do; the rows of a tensor are walked so, too"},
    {"nil value (global 'True')", "Lua's word is true"},
    {"nil value (global 'False')", "Lua's word is false"},
    {"nil value (global 'None')", "Lua's word is nil"},
    {"nil value (global 'torch')", "the module is tide: tide.zeros(2, 3)"},
    {"nil value (global 'np')", "the module is tide: tide.zeros(2, 3)"},
    {"nil value (global 'numpy')", "the module is tide: tide.zeros(2, 3)"},
    {"nil value (global 'len')", "the length is #x"},
    {"nil value (global 'range')", "counting is for i = 1, n do; tide.arange(1, n + 1) makes a tensor"},
    {"nil value (global 'str')", "tostring(x)"},
    {"nil value (global 'int')", "x // 1 rounds down; of a tensor x:int()"},
    {"nil value (global 'float')", "tonumber(x); of a tensor x:float()"},
    {"tide.Tensor value (for iterator", "the rows are walked by for i, row in ipairs(x) do"},
    {"table value (for iterator", "a list is walked by for i, v in ipairs(list) do"},
    {"tide.Tensor value (field 'T')", "T is a field, which is not called: x.T"},
    {"tide.Tensor value (method 'T')", "T is a field, which is not called: x.T"},
    {"call a tide.Tensor value", "x[1] is its first row or element, x:item() its number"},
    {"call a tide.Shape value", "it is a field, which is not called: x.shape, x.shape[1]"},
    {"tide.dtype value (field 'dtype'", "it is a field, which is not called: x.dtype; x:to(tide.float64) converts"},
    {"tide.dtype value (method 'dtype'", "it is a field, which is not called: x.dtype; x:to(tide.float64) converts"},
    {"call a tide.dtype value",
     "x:to(tide.float64) converts a tensor, tide.tensor(v, {dtype = tide.float64}) makes one"},
    {"call a boolean value (method 'is_cuda')", "it is a field, which is not called: x.is_cuda"},
    {"call a boolean value (field 'is_cuda')", "it is a field, which is not called: x.is_cuda"},
    {"call a number value (method 'ndim')", "it is a field, which is not called: x.ndim"},
    {"call a tide.device value", "it is a field, which is not called: x.device; x:to('cuda') copies"},
    {"table value (field 'random')", "tide.rand(2, 3); in a kernel tide.random.uniform(seed, i)"},
    {"table value (field 'Tensor')", "tide.tensor{1, 2} is made of values, tide.empty(2, 3) of sizes"},
    {"'for' limit (number expected, got tide.Tensor)", "#x is its length, x:item() its number"},
    {NULL, NULL}};

/* The name in quotes behind `before` in the message, pushed, or NULL. */
static const char *quoted(lua_State *L, const char *message, const char *before) {
  const char *at = strstr(message, before);
  if (!at) return NULL;
  at += strlen(before);
  return lua_pushlstring(L, at, strcspn(at, "'"));
}

/* What modules have under the name of a global that is none, or NULL. */
static const char *module_hint(lua_State *L, const char *name) {
  bool in_tide = ltide_has_function(L, "tide", name);
  if (ltide_has_function(L, "math", name))
    return lua_pushfstring(L, "; there is math.%s%s", name,
                           in_tide ? lua_pushfstring(L, ", and tide.%s of tensors", name) : "");
  return in_tide ? lua_pushfstring(L, "; there is tide.%s", name) : NULL;
}

const char *ltide_global_hint(lua_State *L, const char *name, int more) {
  luaL_checkstack(L, LUA_MINSTACK, "a hint");
  const char *message = lua_pushfstring(L, "nil value (global '%s')", name);
  for (const lua_hint *h = of_text; h->piece; h++)
    if (!strcmp(h->piece, message)) return lua_pushfstring(L, "; %s", h->hint);
  const char *hint = module_hint(L, name);
  if (hint) return hint;
  ltide_nearest near = {.wanted = name};
  if (more) ltide_nearest_keys(L, more, &near);
  lua_pushglobaltable(L);
  ltide_nearest_keys(L, -1, &near);
  return near.name ? lua_pushfstring(L, ", did you mean '%s'?", near.name) : "";
}

/* A global that is none, and what may be meant; or a number's function that got a tensor. */
static const char *function_hint(lua_State *L, const char *message) {
  const char *name = quoted(L, message, "nil value (global '");
  if (name) return ltide_global_hint(L, name, 0);
  name = strstr(message, "number expected, got tide.Tensor") ? quoted(L, message, " to '") : NULL;
  if (name && ltide_has_function(L, "tide", name))
    return lua_pushfstring(L, "; tide.%s takes tensors, x:item() is the number of one element", name);
  return name ? "; x:item() is the number of a tensor that has one" : "";
}

const char *ltide_lua_hint(lua_State *L, const char *message) {
  luaL_checkstack(L, LUA_MINSTACK, "a hint");
  for (const lua_hint *h = of_text; h->piece; h++)
    if (strstr(message, h->piece)) return lua_pushfstring(L, "; %s", h->hint);
  const char *word = quoted(L, message, "<name> expected near '");
  if (word && (!strcmp(word, "and") || !strcmp(word, "or") || !strcmp(word, "not")))
    return lua_pushfstring(L, "; %s is a word of Lua: x:logical_%s(...)", word, word);
  const char *name = quoted(L, message, "function value (field '");
  if (name && ltide_has_function(L, NULL, name))
    return lua_pushfstring(L, "; %s is a method, it is to be called: x:%s()", name, name);
  return function_hint(L, message);
}
